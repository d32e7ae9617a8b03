import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { logEvents } from '../../../src/cli/serve/log-events.js';
import type { ServerLog } from '../../../src/cli/serve/server-log.js';
import { type EndedJob, type RefusedRequest, ServerEvents } from '../../../src/server/events.js';

type Line = Parameters<ServerLog['note']>;

/** The events of a server, and the lines that its log has of them. */
function logged() {
  const lines: Line[] = [];
  const events = new ServerEvents((problem, cause) => {
    throw new Error(problem, { cause });
  });
  logEvents(events, { note: (...line) => lines.push(line) });
  return { events, lines };
}

const job = { id: 'aa01bc23de45', app: 'tissue', operation: 'infer', owner: 'ana' };
const known = { job_id: job.id, app: 'tissue', operation: 'infer', owner: 'ana' };

test('The log says how and why a job ended, but not what an app says about file names', () => {
  const end = { ...job, state: 'done', error: null, isRefused: false, gpus: [1], seconds: 65, bytes: 4096 };
  const failed = { ...end, state: 'error', error: 'exit code 1', bytes: null };
  for (const [ended, text, told] of [
    [end, 'done after 1 min 5 s, result 4.0 KiB', null],
    [{ ...end, bytes: null, seconds: null }, 'done before it ran', null],
    [failed, 'failed after 1 min 5 s: exit code 1', 'exit code 1'],
    [
      { ...failed, state: 'killed', error: 'Killed by user' },
      'killed after 1 min 5 s: Killed by user',
      'Killed by user',
    ],
    [
      { ...failed, isRefused: true, error: 'smith.nii' },
      'failed after 1 min 5 s: its app refused the input',
      null,
    ],
  ] as const) {
    const { events, lines } = logged();
    events.announce('ended', ended as unknown as EndedJob);
    const { state: status, isRefused: refused, seconds, bytes } = ended;
    const fields = { event: 'ended', ...known, status, error: told, refused, gpus: [1], seconds, bytes };
    expect(lines).toEqual([['info', `Job aa01bc23de45 of ana: ${text}`, fields]]);
  }
});

test('Events of the server itself are logged', () => {
  const { events, lines } = logged();
  events.announce('uploaded', { owner: 'ana', bytes: 1024 });
  events.announce('apps', { added: ['a', 'b'], removed: [] });
  events.announce('apps', { added: [], removed: ['c'] });
  events.announce('drained', { isDraining: true, active: 1 });
  events.announce('drained', { isDraining: true, active: 2 });
  events.announce('drained', { isDraining: false, active: 0 });
  events.announce('tokensMended', { tokens: 2 });
  expect(lines.map(([level, line]) => `${level}: ${line}`)).toEqual([
    'debug: An upload of ana is complete: 1.0 KiB',
    'info: Served from now on: a, b',
    'info: No longer served: c',
    'info: New jobs are no longer accepted; 1 active job continues',
    'info: New jobs are no longer accepted; 2 active jobs continue',
    'info: New jobs are accepted again',
    'info: The token file can be used again: 2 tokens',
  ]);
});

const refused: RefusedRequest = {
  ...{ method: 'GET', path: '/jobs/x', status: 404, error: 'unknownJob', detail: "No job 'x'" },
  ...{ from: '10.0.0.1', owner: 'ana', role: 'user', route: 'job' },
};

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
});
afterEach(() => {
  vi.useRealTimers();
});

test('Of many refused requests, twenty are logged every ten seconds and the others are counted', () => {
  const { events, lines } = logged();
  const told = (level: string) => lines.filter((line) => line[0] === level);
  for (let count = 0; count < 23; count += 1) events.announce('refused', refused);
  const { detail, ...facts } = refused;
  expect(told('info')).toHaveLength(20);
  expect(told('info')[0]).toEqual([
    'info',
    expect.stringMatching(/^Refused GET \/jobs\/x from 10\.0\.0\.1: 404, /),
    { event: 'refused', ...facts },
  ]);
  expect(told('debug')).toHaveLength(23);
  expect(told('debug')[0]).toEqual([
    'debug',
    `The client was told: ${detail}`,
    { event: 'refused', ...refused },
  ]);
  vi.advanceTimersByTime(10_000);
  expect(told('warn')).toEqual([
    ['warn', '3 more requests were refused in 10 s', { event: 'refused', count: 3 }],
  ]);
  for (let count = 0; count < 20; count += 1) events.announce('refused', refused);
  vi.advanceTimersByTime(10_000);
  expect([told('info').length, told('warn').length]).toEqual([40, 1]);
});
