import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { fakeService, jobId } from '../support/fake-service.js';
import { konfaiServer } from '../support/konfai-server.js';
import { sharedServer } from '../support/server.js';
import { plant } from '../support/temporary.js';
import { zipOf } from '../support/zip.mjs';

const result = zipOf({ 'mask.nii': 'mask' });
const logName = 'remote-app-log.txt';

/** A command line in a directory with a scan. */
async function cliWithScan() {
  const cli = await Cli.create();
  await plant(cli.directory, { 'a.nii': 'a' });
  const read = (name: string) => readFile(path.join(cli.directory, name), 'utf8');
  const list = async (name: string) => (await readdir(path.join(cli.directory, name))).sort();
  return { cli, read, list, [Symbol.asyncDispose]: () => cli[Symbol.asyncDispose]() };
}

describe('the log of a job', () => {
  const server = sharedServer();
  const infer = ['infer', 'a.nii', '--set', 'print=computed'];

  test('The log of a job is saved next to its result, and the record names it', async () => {
    await using it = await cliWithScan();
    const env = { REMOTE_APP_SERVER: server.url };
    const ended = await it.cli.run([...infer, '-o', 'One', '--json'], env);
    expect(ended.code, ended.stderr).toBe(0);
    const { job_id: id } = JSON.parse(ended.stdout);
    const log = await (await fetch(`${server.url}/jobs/${id}/log`)).text();
    expect(log).toContain('computed\n');
    expect(await it.read(`One/${logName}`)).toBe(log);
    const record = JSON.parse(await it.read('One/remote-app-record.json'));
    expect(record.log).toBe(logName);
    expect(record.outputs.map(({ name }: { name: string }) => name)).not.toContain(logName);

    expect((await it.cli.run(['result', id, '-o', 'Two'], env)).code).toBe(0);
    expect(await it.read(`Two/${logName}`)).toBe(log);

    const each = ['infer', '--each', 'a.nii', '-o', 'Cases', ...infer.slice(2)];
    expect((await it.cli.run(each, env)).code).toBe(0);
    expect(await it.read(`Cases/a/${logName}`)).toContain('computed\n');
    expect(JSON.parse(await it.read('Cases/a/remote-app-record.json')).log).toBe(logName);
    // After it is computed again, the case has only the log of its new job.
    const again = await it.cli.run([...each, '--set', 'print=again'], env);
    expect(again.code, again.stderr).toBe(0);
    expect((await it.list('Cases/a')).filter((name) => name.includes('log'))).toEqual([logName]);
  });

  test('The log of a failed job is saved next to the files that the job left', async () => {
    await using it = await cliWithScan();
    const env = { REMOTE_APP_SERVER: server.url };
    const ended = await it.cli.run(
      ['infer', 'a.nii', '--set', 'print=broken', '--set', 'exit=1', '--json'],
      env,
    );
    const { job_id: id } = JSON.parse(ended.stdout).error;
    expect((await it.cli.run(['result', id, '--partial', '-o', 'Left'], env)).code).toBe(0);
    expect(await it.read(`Left/${logName}`)).toContain('broken\n');
  });

  test('If the server cannot send the log as text, the followed log is kept', async () => {
    await using it = await cliWithScan();
    const queue = ['reading', 'computing', '__DONE__'];
    await using konfai = await konfaiServer({ queue, result });
    const ended = await it.cli.run(['infer', 'a.nii', '--server', konfai.url]);
    expect(ended.code, ended.stderr).toBe(0);
    expect(await it.read(`Output/${logName}`)).toMatch(/log stream connected\nreading\ncomputing\n$/);
  });

  test('An incomplete log is not kept, and the log never replaces an output of the same name', async () => {
    await using it = await cliWithScan();
    const piece = Buffer.alloc(1 << 20, 'line\n');
    for (const [pieces, files] of [
      [33, ['mask.nii', 'result.zip']],
      [1, ['mask.nii', logName, 'result.zip']],
    ] as const) {
      await using fake = await fakeService({
        result,
        override: ({ url }, response) => {
          if (url !== `/jobs/${jobId}/log`) return false;
          response.writeHead(200, { 'content-type': 'text/plain; charset=utf-8' });
          for (let sent = 0; sent < pieces; sent += 1) response.write(piece);
          response.end();
          return true;
        },
      });
      expect((await it.cli.run(['result', jobId, '-o', `${pieces}`, '--server', fake.url])).code).toBe(0);
      expect(await it.list(`${pieces}`)).toEqual(files);
    }
    await using own = await fakeService({ result: zipOf({ [logName]: 'of the app' }) });
    expect((await it.cli.run(['result', jobId, '-o', 'Own', '--server', own.url])).code).toBe(0);
    expect(await it.read(`Own/${logName}`)).toBe('of the app');
  });
});

describe('--no-zip', () => {
  test('--no-zip removes the zip after it is extracted', async () => {
    await using it = await cliWithScan();
    await using server = await fakeService({ result });
    const env = { REMOTE_APP_SERVER: server.url };
    const infer = await it.cli.run(['infer', 'a.nii', '--no-zip', '--json'], env);
    expect([infer.code, JSON.parse(infer.stdout).archive]).toEqual([0, null]);
    expect(await it.list('Output')).toEqual(['mask.nii', 'remote-app-record.json']);
    expect((await it.cli.run(['result', jobId, '--no-zip', '-o', 'Two'], env)).code).toBe(0);
    expect(await it.list('Two')).toEqual(['mask.nii']);
    // Without its zip it is still recognised as a result and not sent as an input.
    expect((await it.cli.run(['infer', '.', '--no-zip'], env)).code).toBe(0);
    expect(await it.list('Output-2')).toEqual(['mask.nii', 'remote-app-record.json']);
  });

  test('--no-zip keeps a zip that cannot be extracted', async () => {
    await using it = await cliWithScan();
    await using server = await fakeService({ result: result.subarray(0, result.length - 30) });
    const { code, stderr } = await it.cli.run(['result', jobId, '--no-zip', '--server', server.url]);
    expect(code, stderr).toBe(1);
    expect(stderr).toContain("result.zip' is saved, but it is not extracted");
    expect(await it.list('Output')).toEqual(['result.zip']);
  });

  test('--no-zip and -o - exclude each other', async () => {
    await using it = await cliWithScan();
    const { code, stderr } = await it.cli.run([
      'result',
      jobId,
      '--no-zip',
      '-o',
      '-',
      '--server',
      'http://127.0.0.1:1',
    ]);
    expect([code, stderr]).toEqual([2, 'Error: -o - writes the zip that --no-zip leaves out; choose one\n']);
  });
});
