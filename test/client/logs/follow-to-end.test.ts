import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { FollowedLog, followToEnd, keepLog } from '../../../src/client/logs/index.js';
import type { Reporter } from '../../../src/client/reporter.js';
import { type Fake, fakeService, jobId } from '../../support/fake-service.js';
import { showMonotonicTime } from '../../support/monotonic-time.js';
import { json, ScriptedServer } from '../../support/scripted-server.js';
import { temporary } from '../../support/temporary.js';
import { connectTo, memoryReporter } from '../support/connect.js';

type Options = Parameters<typeof followToEnd>[2];

/** Follows a log, and tells all that is reported of it, and what came of it. */
async function follow(fake: Fake, options: Partial<Options> = {}, isRead = true) {
  const told: string[] = [];
  const reporter: Reporter = {
    line: async (text, isRedraw, number) =>
      told.push(`${number}${isRedraw ? ' redrawn' : ''}: ${text}`) > 0 && isRead,
    endLog: async () => told.push('end of log') > 0,
    note: (text) => told.push(`note: ${text}`),
    waiting: (what) => told.push(`wait: ${what}`),
    running: (isRunning) => told.push(isRunning ? 'runs' : 'runs no more'),
    silent: () => {},
    progress: () => {},
  };
  await using server = await fakeService(fake);
  await using connection = connectTo(server.url);
  const end = await followToEnd(connection, jobId, { reporter, ...options }).catch((error: unknown) => error);
  return { told, end, asked: server.to(`/jobs/${jobId}/logs`).map(({ url }) => url.split('?')[1]) };
}

const service = (text: string) => `[remote-app] ${text}`;
/** A stream of these events, from a server that may number its lines. */
const stream = (...events: readonly string[]): Fake => ({
  override: ({ url }, response) => {
    if (!url.includes('/logs')) return false;
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end(events.map((each) => `${each}\n\n`).join(''));
    return true;
  },
});

const ended = ['runs no more', 'end of log', 'wait: null'];

describe('a log that is followed to its end', () => {
  test('The log of a job that the command created shows its place in the queue, its start and its lines', async () => {
    const lines = [
      service(`Remote job ${jobId} accepted (infer on tissue)`),
      `${service('2 jobs are before it')}\r`,
      service('Starting infer'),
      'one',
      'half\r',
      service('Result packed'),
    ];
    const { told, end } = await follow({ lines }, { isAnnounced: true });
    expect(told).toEqual([
      `wait: Waiting for job ${jobId}`,
      'wait: 2 jobs are before it',
      `2 redrawn: ${service('2 jobs are before it')}`,
      'runs',
      `wait: Waiting for job ${jobId}`,
      `3: ${service('Starting infer')}`,
      'wait: null',
      '4: one',
      'wait: null',
      '5 redrawn: half',
      `wait: Waiting for job ${jobId}`,
      `6: ${service('Result packed')}`,
      ...ended,
    ]);
    expect(end).toBe(6);
  });

  test("The log of another command's job says neither that it runs nor that it has started, and has its first line", async () => {
    const first = service(`Remote job ${jobId} accepted`);
    expect((await follow({ lines: [first, 'one'] })).told).toEqual([
      `wait: Waiting for job ${jobId}`,
      `wait: Waiting for job ${jobId}`,
      `1: ${first}`,
      'wait: null',
      '2: one',
      ...ended,
    ]);
  });

  test('A job counts as started with the first line of its app', async () => {
    const { told } = await follow({ lines: [service('Waiting'), 'one', 'two'] }, { isAnnounced: true });
    expect(told.filter((each) => !each.startsWith('wait'))).toEqual([
      `1: ${service('Waiting')}`,
      'runs',
      '2: one',
      '3: two',
      'runs no more',
      'end of log',
    ]);
  });

  test('A note says which lines of a log the server has omitted, except before the last lines that were requested', async () => {
    const gaps = stream('id: 3\ndata: c', 'id: 5\ndata: e', 'id: 9\ndata: i', 'data: __DONE__');
    const notes = async (options: Partial<Options>) =>
      (await follow(gaps, options)).told.filter((each) => each.startsWith('note'));
    const inside = [
      'note: Line 4 of the log is missing: the server did not send it',
      'note: Lines 6 to 8 of the log are missing: the server did not send them',
    ];
    expect(await notes({})).toEqual([
      'note: Lines 1 to 2 of the log are missing: the server did not send them',
      ...inside,
    ]);
    expect(await notes({ tail: 3 })).toEqual(inside);
    expect(await notes({ since: 2 })).toEqual(inside);
  });

  test('A log begins with its last lines even if the server replays all of it, and continues from there', async () => {
    const written = (told: readonly string[]) => told.filter((each) => /^\d+( redrawn)?: /.test(each));
    const last = async (tail: number, ...lines: readonly string[]) => {
      const all = stream(...lines.map((line) => `data: ${line}`), 'data: __DONE__');
      const { told, end } = await follow(all, { tail });
      return [written(told), end];
    };
    expect(await last(2, 'one', 'two', 'three')).toEqual([['1: two', '2: three'], 2]);
    expect(await last(9, 'one', 'two')).toEqual([['1: one', '2: two'], 2]);
    expect(await last(0, 'one')).toEqual([[], 0]);
    const later: Fake = {
      override: ({ url }, response) => {
        if (!url.includes('/logs')) return false;
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write('data: one\n\ndata: two\n\n');
        // Longer than a replay is silent.
        setTimeout(() => response.end('data: three\n\ndata: four\n\ndata: __DONE__\n\n'), 600);
        return true;
      },
    };
    expect(written((await follow(later, { tail: 1 })).told)).toEqual(['1: two', '2: three', '3: four']);
    // Lines with numbers are those that were asked for.
    const numbered = stream('id: 8\ndata: h', 'id: 9\ndata: i', 'data: __DONE__');
    expect(written((await follow(numbered, { tail: 1 })).told)).toEqual(['8: h', '9: i']);
  });

  test('Following a log ends when its reader has left, unless it is to be read on', async () => {
    expect((await follow({ lines: ['one', 'two'] }, {}, false)).end).toBeNull();
    const on = await follow({ lines: ['one', 'two'] }, { readOn: true }, false);
    expect([on.end, on.told.filter((each) => each.startsWith('2: '))]).toEqual([2, ['2: two']]);
  });

  test('The lines of a log and the failure of its job have the names that the person knows', async () => {
    const translate = (text: string) => text.replaceAll('case-0001', 'sub-ada');
    const error = 'case-0001 is empty';
    const fake = { lines: ['read case-0001'], status: 'error', error, marker: `__ERROR__ ${error}` };
    const { told, end } = await follow(fake, { translate });
    expect(told).toContain('1: read sub-ada');
    expect(end).toMatchObject({ message: expect.stringContaining('sub-ada is empty'), state: 'error' });
  });

  test.each([
    ['Killed by user', 'killed'],
    ['The server was stopped', 'killed'],
    ['Exit code 3', 'error'],
  ])('A log that ends with "%s" means that its job ended in this state: %s', async (reason, state) => {
    const { override } = stream(`data: __ERROR__ ${reason}`);
    const fake: Fake = {
      override: (request, response, raw) => {
        if (!request.url.endsWith('/result')) return override?.(request, response, raw) ?? false;
        json(response, 404, { detail: 'Not Found' });
        return true;
      },
    };
    expect((await follow(fake)).end).toMatchObject({ state, details: { reason } });
  });

  test('A job is reported as forgotten only if the server knew it', async () => {
    const gone = (isKnown: boolean): Fake => {
      let asked = 0;
      return {
        override: ({ url }, response) => {
          if (!url.includes('/logs')) return false;
          asked += 1;
          if (isKnown && asked === 1) {
            response.writeHead(200, { 'content-type': 'text/event-stream' });
            response.end('id: 1\ndata: one\n\n');
          } else json(response, 404, { detail: 'Unknown job_id' });
          return true;
        },
      };
    };
    expect((await follow(gone(false))).end).toMatchObject({ name: 'HttpError', status: 404 });
    expect((await follow(gone(true))).end).toMatchObject({ name: 'JobForgotten', exitCode: 1 });
    expect((await follow(gone(false), { persistent: true })).end).toMatchObject({ name: 'JobForgotten' });
  });

  test('After an outage, the wait for the job is shown again', async () => {
    let asked = 0;
    const queue = `id: 1\nevent: redraw\ndata: ${service('2 jobs are before it')}\n\n`;
    const override: Fake['override'] = ({ url }, response) => {
      if (!url.includes('/logs')) return false;
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(asked++ === 0 ? queue : 'data: __DONE__\n\n');
      return true;
    };
    const { told } = await follow({ override });
    expect(told.slice(-6)).toEqual([
      expect.stringMatching(/^note: The log stream of job \w+ ended early; trying again for another 30 s$/),
      expect.stringMatching(/^wait: Trying again for another 30 s: /),
      'wait: 2 jobs are before it',
      ...ended,
    ]);
  });

  test('The reporter learns that a log is silent after a while without lines, but not after its end', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    let now = 0;
    showMonotonicTime(() => now);
    const silences: [number, string][] = [];
    const [read, isRead] = [new Map<string, () => void>(), new Map<string, Promise<void>>()];
    for (const line of ['one', 'two', 'three']) isRead.set(line, new Promise((done) => read.set(line, done)));
    const behind = (line: string, milliseconds: number) => async () => {
      await isRead.get(line);
      now += milliseconds;
      vi.advanceTimersByTime(1000);
      return `${line}, and ${milliseconds} ms`;
    };
    const silence = behind('three', 2001);
    const lines = ['one', behind('one', 1500), 'two', behind('two', 2000), 'three', silence];
    const reporter: Reporter = {
      ...memoryReporter(),
      line: async (text) => {
        read.get(text)?.();
        return true;
      },
      silent: (what) => silences.push([now, what]),
    };
    try {
      expect((await follow({ lines }, { reporter })).end).toBe(6);
      expect([silences, vi.getTimerCount()]).toEqual([[[5501, `Waiting for job ${jobId}`]], 0]);
    } finally {
      vi.useRealTimers();
    }
  });

  test('A log is kept as it was followed only if its lines have no numbers', async () => {
    const [numbered, unnumbered] = [new FollowedLog(), new FollowedLog()];
    await follow({ lines: ['one'] }, { followed: numbered });
    await follow(stream('data: one', 'data: two', 'data: __DONE__'), { followed: unnumbered });
    expect([numbered.text, unnumbered.text]).toEqual([null, 'one\ntwo\n']);
  });
});

test('A kept log has redrawn lines as the server has them, and is dropped if it is long', () => {
  const log = new FollowedLog();
  log.push('half', true);
  log.push('whole', false);
  expect(log.text).toBe('half\r\nwhole\n');
  log.push('ä'.repeat(2 << 20), false);
  expect(log.text).toBeNull();
  log.push('one', false);
  expect(log.text).toBeNull();
});

describe('the log next to a result', () => {
  /** What is kept of a log that the server gives so. */
  async function kept(status: number, type: string, body: string, signal?: AbortSignal) {
    await using directory = await temporary();
    await using server = await ScriptedServer.start(
      (_, response) => void response.writeHead(status, { 'content-type': type }).end(body),
    );
    await using connection = connectTo(server.url, signal ? { signal } : {});
    const name = await keepLog(connection, 'ab', directory.path).catch((error: unknown) => error);
    const files = readdirSync(directory.path);
    return [name, files.map((file) => readFileSync(path.join(directory.path, file), 'utf8'))];
  }

  test('The log next to a result is complete as the server has it, or absent', async () => {
    expect(await kept(200, 'text/plain; charset=utf-8', 'one\n')).toEqual(['remote-app-log.txt', ['one\n']]);
    for (const [status, type, body] of [
      [206, 'text/plain', 'one\n'],
      [404, 'text/plain', 'Not Found'],
      [200, 'text/html', '<p>'],
      [200, 'text/plain', ''],
      // More than 32 MiB.
      [200, 'text/plain', 'x'.repeat((32 << 20) + 1)],
    ] as const)
      expect(await kept(status, type, body)).toEqual([null, []]);
  });

  test('An interruption leaves no log next to a result', async () => {
    const reason = new Error('stop');
    expect(await kept(200, 'text/plain', 'one\n', AbortSignal.abort(reason))).toEqual([reason, []]);
  });
});
