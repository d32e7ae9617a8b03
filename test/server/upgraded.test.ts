import { execFileSync, spawn } from 'node:child_process';
import {
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { refusal } from '../support/api.js';
import { least, steps } from '../support/form.js';
import { list } from '../support/list.mjs';
import { filePart, multipart, submissionHead } from '../support/multipart.mjs';
import { RawConnection } from '../support/raw-http.js';
import { TestServer } from '../support/server.js';
import { temporary } from '../support/temporary.js';
import { until } from '../support/until.mjs';
import { unzip } from '../support/unzip.mjs';
import { zipOf } from '../support/zip.mjs';

const project = fileURLToPath(new URL('../..', import.meta.url));

/** Copies what npm installs, except ONNX Runtime: it is most of it, and only an example imports it. @returns the program */
function install(directory: string): string {
  const { packages } = JSON.parse(readFileSync(path.join(project, 'package-lock.json'), 'utf8'));
  const dependencies = Object.entries<{ dev?: boolean; link?: boolean }>(packages)
    .filter(([name, { dev, link }]) => name.startsWith('node_modules/') && !dev && !link)
    .map(([name]) => name)
    .filter((name) => name !== 'node_modules/onnxruntime-node')
    // Those inside others come with these.
    .filter((name) => name.lastIndexOf('node_modules/') === 0);
  const volumes = [
    'node_modules/@remote-app/volumes',
    'packages/volumes/dist',
    'packages/volumes/package.json',
  ];
  const names = ['bin', 'dist', 'package.json', 'oclif.manifest.json', 'docs', ...volumes, ...dependencies];
  const isThere = (name: string) => existsSync(path.join(project, name));
  mkdirSync(directory);
  execFileSync('cp', ['-a', '--parents', ...names.filter(isThere), directory], { cwd: project });
  return path.join(directory, 'bin', 'run.js');
}

/** Puts a new file in the place of each that can be imported, as npm does. */
function replace(directory: string): void {
  const thrower = path.join(path.dirname(directory), 'thrower');
  writeFileSync(thrower, 'throw new Error("imported after an upgrade");\n');
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !/\.([mc]?js|json)$/.test(entry.name)) continue;
    const file = path.join(entry.parentPath, entry.name);
    linkSync(thrower, `${file}.new`);
    renameSync(`${file}.new`, file);
  }
}

test('Jobs and downloads end with their results when the program is replaced under a server and its clients', async () => {
  await using root = await temporary();
  const installation = path.join(root.path, 'installation');
  const program = install(installation);
  await using server = await TestServer.start({ program, flags: ['--cpu-slots', '8', '--metrics'] });
  const { api } = server;
  const work = path.join(root.path, 'work');
  mkdirSync(work);
  writeFileSync(path.join(work, 'ct.nii'), 'voxels');
  const client = (...words: string[]) => {
    const child = spawn(process.execPath, [program, ...words, '--server', server.url], {
      cwd: work,
      env: { PATH: process.env.PATH, HOME: work },
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (piece) => (output += piece));
    return {
      until: (text: string) => until(`the client says ${text}`, () => output.includes(text)),
      ended: new Promise<[number | null, string]>((resolve) =>
        child.once('close', (code) => resolve([code, output])),
      ),
    };
  };
  const gate = server.gate();
  const wait = (...more: string[]) =>
    ['print=waits', `wait=${gate.path}`, ...more].flatMap((step) => ['--set', step]);
  const done = client('infer', 'ct.nii', '-o', 'done', '--on-end', 'cat >ended', ...wait('write=a:b'));
  const failed = client('infer', 'ct.nii', '-o', 'failed', ...wait('exit=3'));
  const left = await server.heldJob({ ...steps('write=a:b', 'print=x', 'wait=never') });
  for (const each of [done, failed]) await each.until('waits');
  // A job whose upload ends behind the upgrade, with an archive.
  const zip = zipOf({ 'series/1.dcm': 'slice' });
  const body = multipart([filePart('inputs', 'series.konfaidir.zip', zip)]);
  await using upload = await RawConnection.open(server.url);
  const head = submissionHead('/apps/probe/infer', `Content-Length: ${body.length}`);
  const before = server.jobDirectories().length;
  upload.write(Buffer.concat([head, body.subarray(0, -20)]));
  await until('the upload has begun', () => server.jobDirectories().length === before + 1);
  await using log = await api.follow(left.id);

  replace(installation);

  expect((await api.kill(left.id)).status).toBe('killed');
  expect(await log.end()).toContain('__ERROR__ Killed');
  const partial = await api.fetch(`/jobs/${left.id}/result?partial=1`);
  expect((await unzip(Buffer.from(await partial.arrayBuffer()))).get('a')?.toString()).toBe('b');
  gate.open();
  const [doneCode, doneOutput] = await done.ended;
  expect([doneCode, doneOutput]).toEqual([0, expect.stringContaining('Saved')]);
  expect(readFileSync(path.join(work, 'done', 'a'), 'utf8')).toBe('b');
  // What a flag needs at the end was loaded when the flag was read.
  expect(JSON.parse(readFileSync(path.join(work, 'ended'), 'utf8'))).toMatchObject({ status: 'done' });
  const [code, output] = await failed.ended;
  expect([code, output]).toEqual([1, expect.stringMatching(/failed: Subprocess failed \(exit code 3\)\n/)]);

  upload.write(body.subarray(-20));
  const { status, body: envelope } = await upload.answer();
  expect(status).toBe(200);
  await api.reaches(JSON.parse(envelope).job_id, 'waiting');
  expect((await api.job(JSON.parse(envelope).job_id)).waiting_for).toContain('the next start of the server');
  const upgraded = [503, expect.stringMatching(/^The program was upgraded while the server was running/)];
  for (let count = 0; count < 2; count += 1)
    expect(await refusal(await api.submit('infer', least.infer))).toEqual(upgraded);
  const told = server.stderr.match(
    /The program was upgraded while the server was running: restart the server/g,
  );
  expect(told).toHaveLength(1);

  for (const where of list`/repo_apps/probe /repo_apps_config/probe /repo_apps_list /metrics /usage /jobs`)
    expect([where, (await api.fetch(where)).status]).toEqual([where, 200]);
  for (const where of ['/nothing', '/jobs/0123456789ab/result'])
    expect((await refusal(await api.fetch(where)))[0]).toBe(404);
  await using broken = await RawConnection.open(server.url);
  broken.write('no HTTP\r\n\r\n');
  expect((await broken.answer()).status).toBe(400);
  expect(server.stderr).not.toMatch(/imported after|Require stack|Cannot find|SyntaxError/);
}, 180_000);
