import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { fakeService, jobId } from '../support/fake-service.js';
import { konfaiJobId as id, type KonfaiFake, konfaiServer } from '../support/konfai-server.js';
import { dicom, plant } from '../support/temporary.js';
import { zipOf } from '../support/zip.mjs';

const result = zipOf({ 'mask.nii': 'mask' });
const connected = `[KonfAI-Apps] Remote job ${id} log stream connected\n`;

/** A client with scans, and an imitation of KonfAI's server that behaves like this. */
async function world(fake: KonfaiFake = {}) {
  const cli = await Cli.create();
  await plant(cli.directory, {
    'ct.nii': 'volume',
    'p1/s1/1.dcm': dicom,
    'p2/s1/1.dcm': dicom,
    'p1/S2.nii': 'a',
    'p2/S2.nii': 'b',
  });
  const server = await konfaiServer({ result, ...fake });
  return {
    cli,
    server,
    run: (...args: string[]) => cli.run([...args, '--server', server.url]),
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await cli[Symbol.asyncDispose]();
    },
  };
}

describe('a submission to KonfAI', () => {
  test('A submission to KonfAI goes from the volumes to the result', async () => {
    await using here = await world({ queue: ['epoch 1', '__DONE__'] });
    const { code, stdout } = await here.run('infer', 'ct.nii');
    expect([code, stdout]).toEqual([0, `${connected}epoch 1\n`]);
    expect(await readFile(path.join(here.cli.directory, 'Output/mask.nii'), 'utf8')).toBe('mask');
  });

  test('Series and volumes get distinct names if two are called alike', async () => {
    await using here = await world();
    expect((await here.run('infer', 'p1', 'p2', '-i', 'p1,p2')).code).toBe(0);
    expect(here.server.inputs).toEqual([
      ['p1_S2.nii', 'p1_s1', 'p2_S2.nii', 'p2_s1'],
      ['p1_S2.nii', 'p1_s1', 'p2_S2.nii', 'p2_s1'],
    ]);
  });
});

describe('the log of KonfAI', () => {
  test('A log that an earlier reader has emptied does not hide that the job failed', async () => {
    await using here = await world({ state: 'error', error: 'Bad patch', queue: ['__DONE__'] });
    const { code, stderr } = await here.run('logs', id);
    expect([code, stderr]).toEqual([1, `Error: Job ${id} failed: Bad patch\n`]);
    // What is left then is nothing at all.
    const empty = await here.run('logs', id);
    expect([empty.code, empty.stderr]).toEqual([1, `Error: Job ${id} failed: Bad patch\n`]);
  });

  test("A log that only says that it has ended is not believed while the job's state is unknown", async () => {
    await using here = await world({
      state: 'error',
      error: 'Bad patch',
      queue: ['__DONE__'],
      failsOnce: true,
    });
    const { code, stderr } = await here.run('logs', id);
    expect([code, stderr]).toEqual([1, expect.stringContaining(`Error: Job ${id} failed: Bad patch\n`)]);
  });

  test('A log that another program is reading is reported at once', async () => {
    await using here = await world({ state: 'running', isRead: true });
    const { code, stdout, stderr } = await here.run('logs', id);
    expect([code, stdout]).toEqual([6, '']);
    expect(stderr).toContain(
      `Error: The log of job ${id} is already being read, and ${here.server.url} allows one reader at a time; ` +
        `'remote-app status ${id} --server ${here.server.url}' shows the state of the job`,
    );
  });

  test('A log that another program is reading does not matter if the job has ended', async () => {
    await using here = await world({ state: 'done', isRead: true });
    expect((await here.run('infer', 'ct.nii')).code).toBe(0);
    await using failed = await world({ state: 'error', error: 'Bad patch', isRead: true });
    expect(await failed.run('logs', id)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('Bad patch'),
    });
  });

  test('The log continues after its connection was cut', async () => {
    await using here = await world({ queue: ['one', 'two', '__DONE__'], cutsAfter: 1 });
    const { code, stdout } = await here.run('infer', 'ct.nii');
    expect([code, stdout]).toEqual([0, `${connected}one\n${connected}two\n`]);
  });

  test.each([
    ['logs', id],
    ['infer', 'ct.nii'],
  ])('The log of a job that was lost in a restart is explained in one sentence: %s', async (...args) => {
    await using here = await world({ state: 'running', queue: ['one', 'two'], forgetsAfter: 1 });
    const { code, stdout, stderr } = await here.run(...args);
    expect([code, stdout]).toEqual([1, `${connected}one\n`]);
    expect(stderr.match(/^Error: .*$/gm)).toEqual([
      `Error: ${here.server.url} does not know job ${id} any more: it was restarted, and has lost its jobs and their results; submit the job again`,
    ]);
  });
});

describe('features that KonfAI lacks', () => {
  test.each([
    [['jobs'], /has no list of jobs, like KonfAI's server: ask for each job by its id$/],
    [['kill', '--all'], /has no list of jobs/],
    [['rm', id], /removes jobs only by itself, some time after they end, like KonfAI's server$/],
    [['status', 'nope'], /No job 'nope' on http/],
    [['result', id, '--partial', '-o', 'x'], null],
  ])('%j, which KonfAI lacks, fails with one clear sentence', async (args, sentence) => {
    await using here = await world();
    const { code, stderr } = await here.run(...args);
    const errors = stderr.match(/^Error: .*$/gm) ?? [];
    if (sentence === null) expect([code, errors]).toEqual([0, []]);
    else expect([code, errors]).toEqual([2, [expect.stringMatching(sentence)]]);
  });
});

describe('the end of a job of KonfAI', () => {
  test.each([
    ['that was killed, of which the result is never ready', { state: 'killed', error: 'Killed by user' }, 1],
    ['that failed', { state: 'error', error: 'Subprocess failed (exit code 3)' }, 1],
    ['whose app refused the input', { state: 'error', error: 'Not a head', isRefused: true }, 2],
  ] as const)('The end of a job, %s, is reported with its reason', async (_, fake, exitCode) => {
    await using here = await world(fake);
    for (const args of [
      ['result', id],
      ['wait', id],
    ]) {
      const { code, stdout, stderr } = await here.run(...args);
      expect([code, stdout + stderr]).toEqual([exitCode, expect.stringContaining(fake.error)]);
    }
  });

  test('A job whose result has expired is named in the error', async () => {
    await using here = await world({ isExpired: true });
    expect(await here.run('result', id)).toMatchObject({
      code: 1,
      stderr: `Error: Job ${id} on ${here.server.url} has no result any more: Result retention expired\n`,
    });
  });

  test("A running job is killed on KonfAI's server", async () => {
    await using here = await world({ state: 'running' });
    expect((await here.run('kill', id)).stdout).toBe(`${id}  killed\n`);
    expect((await here.run('status', id)).stdout).toMatch(/^Status +killed$/m);
  });
});

test('Lines that the server left out are reported if the line numbers show a gap', async () => {
  await using cli = await Cli.create();
  const lossy = (url: string) => new URL(url, 'http://any').pathname.endsWith('/logs');
  await using server = await fakeService({
    override: ({ url }, response) => {
      if (!lossy(url)) return false;
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end('id: 3\ndata: c\n\nid: 5\ndata: e\n\nid: 6\ndata: f\n\ndata: __DONE__\n\n');
      return true;
    },
  });
  const whole = await cli.run(['logs', jobId, '--server', server.url]);
  expect([whole.code, whole.stdout]).toEqual([0, 'c\ne\nf\n']);
  expect(whole.stderr).toBe(
    'Lines 1 to 2 of the log are missing: the server did not send them\n' +
      'Line 4 of the log is missing: the server did not send it\n',
  );
  const later = await cli.run(['logs', jobId, '--since', '2', '--server', server.url]);
  expect(later.stderr).toBe('Line 4 of the log is missing: the server did not send it\n');
  const last = await cli.run(['logs', jobId, '--tail', '3', '--server', server.url]);
  expect(last.stderr).toBe('Line 4 of the log is missing: the server did not send it\n');
});
