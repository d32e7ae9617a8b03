import { chmodSync, existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { least } from '../../support/form.js';
import { filePart, multipart, submissionHead } from '../../support/multipart.mjs';
import { RawConnection } from '../../support/raw-http.js';
import { sharedServer, type TestServer } from '../../support/server.js';
import { until } from '../../support/until.mjs';

const hook = fileURLToPath(new URL('../../fixtures/programs/shorten-retry.cjs', import.meta.url));

const server = sharedServer({ asOrdinaryUser: true, node: ['--require', hook] });

/** Uploads a part of a file and breaks off once `close` has been called with its directory, which is returned. */
async function leftBy(server: TestServer, close: (directory: string) => void): Promise<string> {
  const incoming = path.join(server.dataDirectory, 'incoming');
  await using connection = await RawConnection.open(server.url);
  connection.write(submissionHead('/apps/probe/infer', 'Content-Length: 1000000'));
  connection.write(multipart([filePart('inputs', 'a.nii', Buffer.alloc(5000, 7))], { close: '' }));
  const [name = ''] = await until('the upload has begun', () => {
    const names = readdirSync(incoming);
    return names.length > 0 ? names : null;
  });
  close(path.join(incoming, name));
  await connection.destroy();
  return path.join(incoming, name);
}

test('A directory that its owner may not write to can still be moved to the trash', async () => {
  const left = await leftBy(server, (directory) => chmodSync(directory, 0));
  const trash = path.join(server.dataDirectory, 'trash');
  await until('it is removed', () => !existsSync(left) && readdirSync(trash).length === 0);
  expect(server.stderr).not.toContain('trash');
});

test('An upload that could not be moved to the trash is reported once, and removed as soon as it can be', async () => {
  const incoming = path.join(server.dataDirectory, 'incoming');
  const left = await leftBy(server, () => chmodSync(incoming, 0o500));
  const report = `${left} could not be moved to the trash`;
  await until('it is reported', () => server.stderr.includes(report));
  // Several times, each without a report of its own.
  await delay(1000);
  expect(server.stderr.split(report).length, server.stderr).toBe(2);
  expect(existsSync(left)).toBe(true);
  chmodSync(incoming, 0o700);
  await until('it is removed', () => !existsSync(left));
  await until(
    'nothing is left in the trash',
    () => readdirSync(path.join(server.dataDirectory, 'trash')).length === 0,
  );
  expect((await server.api.run('infer', least.infer)).view.status).toBe('done');
});
