import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { PassThrough, Writable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { Interrupted } from '../../../src/client/errors.js';
import { type AwaitOptions, type OutputDirectory, saveAppConfig } from '../../../src/client/result/index.js';
import { showMonotonicTime } from '../../support/monotonic-time.js';
import { openBelow } from '../../support/open-files.js';
import { type Handler, json, ScriptedServer } from '../../support/scripted-server.js';
import { plant, temporary } from '../../support/temporary.js';
import { until } from '../../support/until.mjs';
import { zipOf } from '../../support/zip.mjs';
import { connectTo, memoryReporter } from '../support/connect.js';
import { saveResult, streamResult } from '../support/save-result.js';

const zip = zipOf({ 'Predictions/a.nii': 'mask' });
const send =
  (bytes: Buffer): Handler =>
  (_, response) =>
    void response.writeHead(200, { 'content-length': bytes.length, etag: '"a"' }).end(bytes);
const notYet =
  (status: string): Handler =>
  (_, response) =>
    json(response, 202, { job_id: 'ab', status });
const unfinished = notYet('running');

/** Fetches a result from a server that answers like this, request by request; the last answer repeats. */
async function fetchResult(
  handlers: Handler[],
  wait = 30,
  { complete, ...more }: Partial<AwaitOptions> & { complete?: (directory: string) => Promise<void> } = {},
) {
  let next = 0;
  await using directory = await temporary();
  await using server = await ScriptedServer.start((...request) =>
    handlers[Math.min(next++, handlers.length - 1)]?.(...request),
  );
  await using connection = connectTo(server.url);
  const output = path.join(directory.path, 'Output');
  const waits: (string | null)[] = [];
  const told = memoryReporter();
  const waiting: (typeof told)['waiting'] = (what, isNews) => {
    waits.push(what);
    told.waiting(what, isNews);
  };
  const reporter = { ...told, waiting };
  const result = await saveResult(
    connection,
    'ab',
    { directory: output, taken: 'number' },
    { wait, reporter, ...more },
    complete,
  ).catch((error: unknown) => error);
  const names = (await readdir(output, { recursive: true }).catch((): string[] => [])).sort();
  const mask = await readFile(path.join(output, 'Predictions', 'a.nii'), 'utf8').catch(() => null);
  const beside = (await readdir(directory.path)).filter((name) => name !== 'Output');
  const requests = server.received.length;
  return { result, names, beside, mask, output, notes: reporter.notes, waits, requests };
}

/** Fetches a result into a directory that gets these files while it comes. */
async function fetchResultInto(bytes: Buffer, files: Readonly<Record<string, string>>) {
  await using directory = await temporary();
  const output = path.join(directory.path, 'Output');
  await using server = await ScriptedServer.start(async (_, response) => {
    response.writeHead(200, { 'content-length': bytes.length, etag: '"a"' });
    response.write(bytes.subarray(0, 20));
    await until('the download has a private directory', async () =>
      (await readdir(directory.path)).some((name) => name.startsWith('.remote-app-')),
    );
    await plant(output, files);
    response.end(bytes.subarray(20));
  });
  await using connection = connectTo(server.url);
  const options = { wait: 30, reporter: memoryReporter() };
  const result = await saveResult(connection, 'ab', { directory: output, taken: 'number' }, options).catch(
    (error: unknown) => error,
  );
  const own = await Promise.all(Object.keys(files).map((name) => readFile(path.join(output, name), 'utf8')));
  return { result, own, output, names: (await readdir(output, { recursive: true })).sort() };
}

describe('a result', () => {
  test('A result is waited for, saved and extracted', async () => {
    const { result, names, mask, output, requests, notes, waits } = await fetchResult([
      unfinished,
      unfinished,
      send(zip),
    ]);
    expect([requests, notes.at(-1)]).toEqual([3, `Saved 1 file in ${output}`]);
    const wait = 'Job ab is running; waiting for its end';
    expect(waits).toEqual([wait, wait, null]);
    expect(mask).toBe('mask');
    expect(names).toEqual(['Predictions', path.join('Predictions', 'a.nii'), 'result.zip']);
    expect(result).toEqual({
      archive: path.join(output, 'result.zip'),
      output,
      files: 1,
      bytes: 4,
      notes: [],
    });
  });

  test('A result replaces nothing that has appeared in the directory since the download began, and goes to a numbered one', async () => {
    const { result, own, names, output } = await fetchResultInto(zip, {
      'a.nii': 'own',
      'deep/b.nii': 'own',
    });
    expect(own).toEqual(['own', 'own']);
    expect(names).toEqual(['a.nii', 'deep', path.join('deep', 'b.nii')]);
    expect(result).toMatchObject({ output: `${output}-2`, files: 1 });
  });

  test.each([
    ['the job says that it has ended', [notYet('done')], {}],
    ['the log has ended', [unfinished], { isDone: true }],
  ])('A result that does not come in time once %s ends with exit code 3', async (_, handlers, more) => {
    const { result, names } = await fetchResult(handlers, 0.5, more);
    expect(result).toMatchObject({
      exitCode: 3,
      message:
        "Job ab has ended, and its result is not there after 0.5 seconds: 'remote-app logs ab' follows it, " +
        "'remote-app result ab' asks for its result again",
      details: { job_id: 'ab' },
    });
    expect(names).toEqual([]);
  });

  test('The result of a running job is waited for even with a short --wait, and a note says so', async () => {
    const running = Array.from({ length: 3 }, () => unfinished);
    const { mask, notes } = await fetchResult([...running, notYet('done'), send(zip)], 0.001);
    expect(mask).toBeNull();
    expect(notes).toEqual(['Job ab is running; waiting for its end']);
    expect((await fetchResult([...running, send(zip)], 0.001)).mask).toBe('mask');
  });

  test('A result of a waiting job is waited for, and a note says what the job waits for', async () => {
    const view = { job_id: 'ab', status: 'waiting', queue_position: 2, waiting_for: 'GPU 0' };
    const { mask, notes } = await fetchResult([
      notYet('waiting'),
      (_, response) => json(response, 200, view),
      send(zip),
    ]);
    expect([mask, notes[0]]).toEqual([
      'mask',
      'Job ab is waiting for GPU 0, 2 in the queue; waiting for its end',
    ]);
  });

  test('The result of a waiting job is waited for even if it is unknown what the job waits for', async () => {
    const fails: Handler = (_, response) => json(response, 404, { detail: 'Not Found' });
    const { mask, waits } = await fetchResult([notYet('waiting'), fails, send(zip)]);
    expect([mask, waits]).toEqual(['mask', ['Job ab is waiting; waiting for its end', null]]);
  });

  test('A result of a job that has ended is waited for without a note', async () => {
    const { waits, notes, output } = await fetchResult([notYet('done'), send(zip)]);
    expect([waits, notes]).toEqual([
      ['Waiting for the result of job ab', null],
      [`Saved 1 file in ${output}`],
    ]);
  });

  test('The wait has no limit if the job continues after all', async () => {
    const { mask } = await fetchResult([notYet('done'), unfinished, unfinished, send(zip)], 0.5);
    expect(mask).toBe('mask');
  });

  test('A result is not requested before the time that the server names, nor after the wait is over', async () => {
    const later: Handler = (_, response) => json(response, 202, { status: 'done' }, { 'retry-after': '10' });
    const { result, requests, waits } = await fetchResult([later], 9);
    expect([result, requests, waits.at(-1)]).toEqual([expect.objectContaining({ exitCode: 3 }), 1, null]);
  });

  test('A server that becomes unreachable twice during the wait is noted twice', async () => {
    const away: Handler = (_, response) => void response.writeHead(502).end();
    const { mask, notes } = await fetchResult([unfinished, away, unfinished, away, send(zip)]);
    expect([mask, notes.filter((note) => note.includes('; trying again for')).length]).toEqual(['mask', 2]);
  });

  test('A result of a server that was never reached is waited for only if the job is known to be done', async () => {
    const nowhere = { directory: '/nowhere/Out', taken: 'number' } as const;
    const save = async (isDone: boolean) => {
      await using connection = connectTo('http://127.0.0.1:1', { patience: 0.1 });
      const reporter = memoryReporter();
      const how = { wait: 5, reporter, isDone };
      const error = await saveResult(connection, 'ab', nowhere, how).catch((cause: unknown) => cause);
      return [(error as Error).message.replace(/^.*;/, ''), reporter.notes.length];
    };
    expect(await save(false)).toEqual([expect.not.stringContaining('job ab'), 0]);
    expect(await save(true)).toEqual([" job ab is done: 'remote-app result ab' fetches its result", 1]);
  });

  test('A refused result says that the job may continue only if the server has reported the job', async () => {
    const refused: Handler = (_, response) => json(response, 403, { detail: 'Not yours' });
    const [known, unknown] = [await fetchResult([unfinished, refused]), await fetchResult([refused])];
    expect((known.result as Error).message).toMatch(/^Not yours; job ab may go on: /);
    expect(unknown.result).toMatchObject({ message: 'Not yours', details: { job_id: 'ab' } });
  });

  test('A result is not waited for once the command is interrupted', async () => {
    const controller = new AbortController();
    const later: Handler = (_, response) =>
      json(response, 202, { status: 'running' }, { 'retry-after': '30' });
    await using server = await ScriptedServer.start(later);
    await using connection = connectTo(server.url, { signal: controller.signal });
    const reporter = {
      ...memoryReporter(),
      waiting: (what: string | null) => {
        if (what !== null) controller.abort(new Interrupted('SIGINT'));
      },
    };
    const place = { directory: '/nowhere/Out', taken: 'number' } as const;
    const saving = saveResult(connection, 'ab', place, { wait: 5, reporter });
    await expect(saving).rejects.toMatchObject({ name: 'Interrupted', details: { job_id: 'ab' } });
    expect(reporter.notes).toEqual(["Job ab goes on; 'remote-app result ab' fetches its result"]);
  });

  test('A result is requested again within half a minute, even if the server names a later time', async () => {
    const controller = new AbortController();
    const later: Handler = (_, response) =>
      json(response, 202, { status: 'done' }, { 'retry-after': '3600' });
    await using server = await ScriptedServer.start(later);
    await using connection = connectTo(server.url, { signal: controller.signal });
    const waiting = () => void setImmediate(() => controller.abort(new Interrupted('SIGINT')));
    const place = { directory: '/nowhere/Out', taken: 'number' } as const;
    const saving = saveResult(connection, 'ab', place, {
      wait: 60,
      reporter: { ...memoryReporter(), waiting },
    });
    // It is not over yet.
    await expect(saving).rejects.toMatchObject({ name: 'Interrupted' });
  });

  test('If the download of a result is interrupted, the error says that the job is done', async () => {
    const controller = new AbortController();
    await using directory = await temporary();
    await using server = await ScriptedServer.start((_, response) => {
      response.writeHead(200, { 'content-length': 1e6 }).write('PK');
    });
    await using connection = connectTo(server.url, { signal: controller.signal });
    const reporter = memoryReporter();
    const progress = () => controller.abort(new Interrupted('SIGINT'));
    const output = { directory: path.join(directory.path, 'Output'), taken: 'number' } as const;
    const saving = saveResult(connection, 'ab', output, { wait: 30, reporter: { ...reporter, progress } });
    await expect(saving).rejects.toMatchObject({ name: 'Interrupted', details: { job_id: 'ab' } });
    expect(reporter.notes).toEqual(["Job ab is done; 'remote-app result ab' fetches its result"]);
    expect(await readdir(directory.path)).toEqual([]);
  });

  test('A result is requested only once with --no-wait', async () => {
    const { result, requests, notes } = await fetchResult([unfinished], 30, { isImpatient: true });
    expect(result).toMatchObject({
      exitCode: 3,
      details: { job_id: 'ab', status: 'running' },
      message:
        "Job ab is running, and has no result yet: 'remote-app logs ab' follows it, " +
        "'remote-app result ab' asks for its result again",
    });
    expect([requests, notes]).toEqual([1, []]);
    const ended = await fetchResult([notYet('done')], 30, { isImpatient: true });
    expect(ended.result).toMatchObject({ message: expect.stringContaining('is not there after 0 seconds:') });
  });

  test('A result that a busy server refuses is not asked for again with --no-wait', async () => {
    const busy: Handler = (_, response) => json(response, 429, { detail: 'Server busy' });
    const { result, requests } = await fetchResult([unfinished, busy], 30, { isImpatient: true });
    expect([requests, result]).toEqual([1, expect.objectContaining({ exitCode: 3 })]);
    const refused = await fetchResult([busy], 30, { isImpatient: true });
    expect([refused.requests, refused.result]).toEqual([1, expect.objectContaining({ exitCode: 6 })]);
  });

  test.each([
    [500, 'error', 'Subprocess failed (exit code 2)', 'error', 1],
    [422, 'error', 'The patch is larger than the volume', 'refused', 2],
    [409, 'killed', 'Killed by user', 'killed', 1],
    // KonfAI's server answers this for a job that was killed.
    [202, 'killed', null, 'killed', 1],
  ] as const)(
    'A result request that is answered with %i for a job that is not done reports the failure of the job',
    async (...row) => {
      const [status, state, error, failure, exitCode] = row;
      const { result } = await fetchResult([
        (_, response) => json(response, status, { job_id: 'ab', status: state, error }),
      ]);
      const message = expect.stringContaining(error ?? 'no reason given');
      expect(result).toMatchObject({ exitCode, state: failure, message });
      const partial = await fetchResult(
        [(__, response) => json(response, status, { job_id: 'ab', status: state, error })],
        30,
        { isPartial: true },
      );
      expect(partial.result).toMatchObject({
        exitCode,
        message: expect.stringMatching(/; http:\S+ does not hand out what it left$/),
        details: { job_id: 'ab', status: state, reason: error ?? expect.any(String) },
      });
    },
  );

  test('The command that fetches a result again has the flags and the place of this command', async () => {
    const page: Handler = (_, response) =>
      void response.writeHead(200, { 'content-type': 'text/html' }).end('<');
    const again = async (destination: Partial<OutputDirectory>, more: Partial<AwaitOptions> = {}) => {
      await using server = await ScriptedServer.start(page);
      await using connection = connectTo(server.url);
      const where = { directory: '/nowhere/Out', taken: 'number', ...destination } as const;
      const options = { wait: 1, reporter: memoryReporter(), ...more };
      const error = await saveResult(connection, 'ab', where, options).catch((cause: unknown) => cause);
      return /'(remote-app[^']*)' fetches its result$/.exec((error as Error).message)?.[1];
    };
    expect(await again({})).toBe('remote-app result ab');
    expect(await again({ taken: 'refuse' })).toBe('remote-app result ab -o /nowhere/Out');
    expect(await again({ taken: 'replace', withoutArchive: true }, { isPartial: true })).toBe(
      'remote-app result ab -o /nowhere/Out --force --partial --no-zip',
    );
    for (const directory of ['/no where', '-x'])
      expect(await again({ directory, taken: 'refuse' })).toBe('remote-app result ab -o DIR');
  });

  test('A result is streamed as it arrives, and streaming ends when the reader is gone', async () => {
    const stream = async (...handlers: Handler[]) => {
      let next = 0;
      await using server = await ScriptedServer.start((...request) =>
        handlers[Math.min(next++, handlers.length - 1)]?.(...request),
      );
      await using connection = connectTo(server.url);
      const pipe = new PassThrough();
      const read = buffer(pipe);
      const how = { wait: 5, reporter: memoryReporter(), isPartial: true };
      const result = await streamResult(connection, 'ab', pipe, how).catch((error: unknown) => error);
      pipe.end();
      return {
        result,
        bytes: await read,
        moves: how.reporter.moves,
        urls: server.received.map(({ url }) => url),
      };
    };
    expect(await stream(send(zip))).toEqual({
      result: { bytes: zip.length },
      bytes: zip,
      moves: [['Downloading', zip.length, zip.length]],
      urls: ['/jobs/ab/result?partial=1'],
    });
    expect((await stream(send(Buffer.alloc(0)))).result).toMatchObject({
      message: expect.stringContaining('sent an archive of 0 bytes; is it a remote-app server?'),
    });
    const gone = await stream(
      (_, response) => void response.writeHead(200, { 'content-type': 'text/html' }).end('<'),
    );
    expect((gone.result as Error).message).toContain(
      "'remote-app result ab -o - --partial' fetches its result",
    );
  });

  test.each([
    ['EPIPE', { bytes: 0 }],
    [
      'EIO',
      expect.objectContaining({
        name: 'WriteError',
        message: expect.stringMatching(
          /^Cannot write 'stdout': .*, then run 'remote-app result ab -o -'; job ab is done: .*$|^Cannot write 'stdout': .*, then run 'remote-app result ab -o -'$/,
        ),
      }),
    ],
  ])('The command handles a stream that ends with %s during a result', async (code, expected) => {
    await using server = await ScriptedServer.start(send(zip));
    await using connection = connectTo(server.url);
    const stream = new Writable({
      write: (_chunk, _encoding, done) => done(Object.assign(new Error(code), { code, errno: -5 })),
    }).on('error', () => {});
    const how = { wait: 5, reporter: memoryReporter() };
    const result = await streamResult(connection, 'ab', stream, how).catch((error: unknown) => error);
    expect(result).toEqual(expected);
  });

  test('With --no-zip, only the files of a result are kept', async () => {
    await using directory = await temporary();
    await using server = await ScriptedServer.start(send(zip));
    await using connection = connectTo(server.url);
    const where = {
      directory: path.join(directory.path, 'Out'),
      taken: 'refuse',
      withoutArchive: true,
    } as const;
    const saved = await saveResult(connection, 'ab', where, { wait: 5, reporter: memoryReporter() });
    expect(saved).toMatchObject({ archive: null, files: 1 });
    expect(await readdir(where.directory)).toEqual(['Predictions']);
  });

  test('Files are added to a result before it has its place, and nothing is left if that fails', async () => {
    const isThere: boolean[] = [];
    const complete = async (directory: string) => {
      await Promise.resolve();
      isThere.push((await readdir(directory)).includes('result.zip'));
      await plant(directory, { 'record.json': '{}' });
    };
    const { names } = await fetchResult([send(zip)], 5, { complete });
    expect([isThere, names.includes('record.json')]).toEqual([[false], true]);
    const fails = await fetchResult([send(zip)], 5, { complete: () => Promise.reject(new Error('full')) });
    expect([(fails.result as Error).message, fails.names, fails.beside]).toEqual(['full', [], []]);
  });

  test("A result that a proxy answers with errors until the wait is over ends with the proxy's error, not with that of a running job", async () => {
    const page: Handler = (_, response) => void response.writeHead(502).end('<h1>Bad Gateway</h1>');
    const { result } = await fetchResult([notYet('done'), page], 1.5);
    expect(result).toMatchObject({
      exitCode: 5,
      message: expect.stringMatching(
        /^A proxy answers at http:.* \(HTTP 502\); .*; job ab may go on: .*'remote-app result ab'/,
      ),
    });
  });

  test('The wait for a result begins with the end of the job, however often the server reports that end', async () => {
    let now = 0;
    showMonotonicTime(() => now);
    const late =
      (status: string): Handler =>
      (...request) => {
        now += 20_000;
        return notYet(status)(...request);
      };
    // The job ran for longer than the wait.
    const running = [late('running'), late('running'), late('running')];
    const { result, requests } = await fetchResult(
      [...running, late('done'), late('done'), late('done'), send(zip)],
      30,
    );
    expect([(result as Error).message, requests]).toEqual([
      expect.stringContaining('has ended, and its result is not there after 30 seconds'),
      6,
    ]);
  });

  test('If the server has forgotten the job, its result is said to be gone', async () => {
    const unknown: Handler = (_, response) => json(response, 404, { detail: 'Unknown job_id' });
    for (const [handlers, more] of [
      [[unfinished, unknown], {}],
      [[unknown], { isDone: true }],
    ] as const) {
      const { result } = await fetchResult([...handlers], 5, more);
      expect(result).toMatchObject({ name: 'JobForgotten', exitCode: 1, details: { job_id: 'ab' } });
    }
  });

  test('A result of an unknown job is a usage error', async () => {
    const { result } = await fetchResult([
      (_, response) => json(response, 404, { detail: 'Unknown job_id' }),
    ]);
    expect(result).toMatchObject({ exitCode: 2, message: expect.stringMatching(/^No job '\w+' on http:/) });
  });

  test.each([
    ['a page', send(Buffer.from('<!DOCTYPE html><title>Log in'))],
    ['0 bytes', send(Buffer.alloc(0))],
    [
      'a page that says so',
      (_, response) => void response.writeHead(200, { 'content-type': 'text/html' }).end('PK\u0003\u0004'),
    ],
  ] satisfies [string, Handler][])('A result that is %s replaces nothing', async (_, handler) => {
    const { result, names, requests } = await fetchResult([handler]);
    expect(result).toMatchObject({
      exitCode: 5,
      message: expect.stringMatching(
        /^http:\S+ sent .*; is it a remote-app server\?; job ab is done: .*result ab/,
      ),
    });
    expect([names, requests]).toEqual([[], 1]);
  });

  test.each([['1e9'], ['99999999999'], ['-1'], ['NaN'], ['soon']])(
    'A result is not waited for with an unreasonable Retry-After of %s seconds',
    async (seconds) => {
      const later: Handler = (_, response) =>
        json(response, 202, { status: 'running' }, { 'retry-after': seconds });
      const { mask } = await fetchResult([later, send(zip)]);
      expect(mask).toBe('mask');
    },
  );

  test('A broken download leaves nothing of a result', async () => {
    const cut: Handler = (_, response) => {
      response.writeHead(200, { 'content-length': 1e6, etag: '"a"' });
      response.write('half', () => response.destroy());
    };
    const gone: Handler = (_, response) => json(response, 410, { detail: 'Expired' });
    const { result, names, beside, output } = await fetchResult([cut, gone]);
    expect(result).toMatchObject({ status: 410 });
    expect([names, beside]).toEqual([[], []]);
    expect(openBelow(path.dirname(output))).toEqual([]);
  });
});

test('The configuration of an app replaces no files unless this is requested', async () => {
  await using directory = await temporary();
  const there = path.join(directory.path, 'there');
  await plant(there, { 'Model.yml': 'mine' });
  const bytes = zipOf({ 'Model.yml': 'new', 'Other.yml': 'new' });
  let isThere = true;
  let refused = 0;
  await using server = await ScriptedServer.start((request, response, raw) =>
    // A range that nobody asked for: it starts over.
    refused++ === 0
      ? void response.writeHead(416).end()
      : isThere
        ? send(bytes)(request, response, raw)
        : json(response, 404, { detail: 'Unknown app' }),
  );
  await using connection = connectTo(server.url);
  const save = (isForced: boolean, place = there) =>
    saveAppConfig(connection, "it's", place, isForced, memoryReporter());
  await expect(save(false)).rejects.toThrow(
    `'${there}' already contains files, which the configuration could replace; name another directory with --config, or write into this one with --force`,
  );
  expect(server.received).toEqual([]);
  expect(await save(true)).toMatchObject({ output: there, files: 2 });
  expect(await readFile(path.join(there, 'Model.yml'), 'utf8')).toBe('new');
  const other = path.join(directory.path, 'other');
  expect(await save(false, other)).toMatchObject({ output: other });
  isThere = false;
  await expect(save(true)).rejects.toMatchObject({ status: 404, message: 'Unknown app' });
});

test('The configuration of an app starts over if its range is refused, and is not mixed with files that appeared meanwhile', async () => {
  await using directory = await temporary();
  const place = path.join(directory.path, 'Config');
  const bytes = zipOf({ 'Model.yml': 'new' });
  const answers: Handler[] = [
    (_, response) => {
      response.writeHead(200, { 'content-length': bytes.length, etag: '"a"' });
      response.write(bytes.subarray(0, 20), () => response.destroy());
    },
    (_, response) => void response.writeHead(416).end(),
    async (...request) => {
      await plant(place, { 'Model.yml': 'of another command' });
      await send(bytes)(...request);
    },
    send(bytes),
  ];
  await using server = await ScriptedServer.start((...request) => answers.shift()?.(...request));
  await using connection = connectTo(server.url);
  const beside = `${place}-2`;
  expect(await saveAppConfig(connection, 'lung', place, false, memoryReporter())).toMatchObject({
    output: beside,
    files: 1,
  });
  const texts = [place, beside].map((each) => readFile(path.join(each, 'Model.yml'), 'utf8'));
  expect(await Promise.all(texts)).toEqual(['of another command', 'new']);
  const unwritable = saveAppConfig(connection, "it's", '/proc/none', false, memoryReporter());
  await expect(unwritable).rejects.toThrow(
    /^Cannot write .*, then run 'remote-app apps 'it'\\''s' --config DIR'$/,
  );
});
