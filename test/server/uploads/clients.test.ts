import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { Upload } from 'tus-js-client';
import { expect, test } from 'vitest';
import type { JobEnvelope } from '../../../src/contract/job.js';
import { sharedServer } from '../../support/server.js';
import { sha256, Tus } from '../../support/tus.js';

const server = sharedServer({ token: 'secret' });
const tus = new Tus(server.api);
const run = promisify(execFile);

/** Uploads as the page of tus-js-client has it. */
const upload = (content: Buffer, more: { chunkSize?: number; uploadUrl?: string } = {}) =>
  new Promise<Upload>((resolve, reject) => {
    const sent = new Upload(content, {
      endpoint: `${server.url}/uploads`,
      metadata: { sha256: sha256(content), filename: 'ct.nii' },
      headers: { Authorization: 'Bearer secret' },
      chunkSize: 1 << 16,
      retryDelays: null,
      onError: reject,
      onSuccess: () => resolve(sent),
      ...more,
    });
    sent.start();
  });

test('The library tus-js-client uploads in pieces, and continues what another client has begun', async () => {
  const content = Buffer.alloc(200_000, 'voxels');
  const { url } = await upload(content);
  expect(url).toBe(`${server.url}/uploads/${sha256(content)}`);
  expect((await tus.head(sha256(content))).offset).toBe(content.length);

  const other = Buffer.alloc(200_000, 'labels');
  await tus.begin(other, other.subarray(0, 50_000));
  await upload(other, { uploadUrl: `${server.url}/uploads/${sha256(other)}` });
  expect((await tus.head(sha256(other))).offset).toBe(other.length);
});

test('The program curl uploads a file by its hash, and submits it by reference', async () => {
  const file = path.join(server.scratch, 'ct.nii.gz');
  // More than curl sends without asking first.
  writeFileSync(file, Buffer.alloc(3 << 20, 'voxels'));
  const script = `
    set -e
    name=$(sha256sum "$FILE" | cut -c1-64)
    curl --fail-with-body -sS -X POST "$SERVER/uploads" -H "$AUTH" -H 'Tus-Resumable: 1.0.0' \\
      -H "Upload-Length: $(stat -c %s "$FILE")" -H "Upload-Metadata: sha256 $(printf %s "$name" | base64 -w0)" \\
      -H 'Content-Type: application/offset+octet-stream' -H 'Expect: 100-continue' --data-binary "@$FILE"
    curl --fail-with-body -sS "$SERVER/apps/probe/infer" -H "$AUTH" -H 'Content-Type: application/json' \\
      -d '{"inputs": [{"upload": "'$name'", "name": "ct.nii.gz"}]}'`;
  const env = { ...process.env, FILE: file, SERVER: server.url, AUTH: 'Authorization: Bearer secret' };
  const { stdout } = await run('sh', ['-c', script], { env });
  const { view } = await server.api.ended((JSON.parse(stdout) as JobEnvelope).job_id);
  expect(view).toMatchObject({ status: 'done', inputs: ['ct.nii.gz'] });
});
