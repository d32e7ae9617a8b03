import { PassThrough } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { openCohortView } from '../../../src/cli/submit/cohort-view.js';
import { CommandIo } from '../../../src/cli/terminal/index.js';
import type { CaseState, CaseStatus } from '../../../src/client/cohort/index.js';

const stateOf = (name: string, status: CaseStatus, more: Partial<CaseState> = {}): CaseState => ({
  ...{ name, subject: null, session: null, status, reason: null, kind: null, version: null, seconds: null },
  ...{ jobId: null, isNew: status === 'done', edited: [], numbers: {}, ...more },
});

/** A command with a terminal as stderr or without one, and what it has written. */
function command(isTerminal = false) {
  const [out, err] = [new PassThrough(), new PassThrough()];
  let [stdout, stderr] = ['', ''];
  out.on('data', (chunk) => {
    stdout += chunk;
  });
  err.on('data', (chunk) => {
    stderr += chunk;
  });
  const screen = Object.assign(err, isTerminal ? { isTTY: true, columns: 100, rows: 30 } : {});
  const io = new CommandIo({ stdin: new PassThrough(), stdout: out, stderr: screen, env: {} });
  return { io, written: () => ({ stdout, stderr }) };
}

const cases = ['a', 'b', 'c', 'd'].map((name) => stateOf(name, 'waiting'));

/** What becomes of four cases, one of which was done before. */
async function shown(json: boolean, watches: boolean, isTerminal = false) {
  const { io, written } = command(isTerminal);
  const view = await openCohortView(io, json, watches);
  view.changed(stateOf('a', 'done', { seconds: 9 }));
  view.began([...cases.slice(1), stateOf('a', 'done', { isNew: false })]);
  view.changed(stateOf('b', 'running'));
  view.changed(stateOf('b', 'done', { seconds: 65, jobId: 'j', numbers: { ml: 2 } }));
  view.changed(stateOf('c', 'failed', { reason: 'out of memory' }));
  view.changed(stateOf('a', 'done', { isNew: false }));
  view.reporterOf('b').waiting('The server is away', true);
  view.reporterOf('c').waiting('The server is away', true);
  view.reporterOf('c').waiting('Waiting for the result');
  view.close();
  return written();
}

const lines = 'done b (1 min)\nfailed c: out of memory\n';
const before = '1 of 4 cases done already\n';
const away = 'The server is away\n';

test('Without a terminal, each finished case is a line, and messages about all cases are printed once', async () => {
  expect(await shown(false, false)).toEqual({ stdout: lines, stderr: before + away });
  expect(await shown(true, false)).toEqual({ stdout: '', stderr: before + lines + away });
  const { io, written } = command();
  (await openCohortView(io, false, false)).began(cases);
  expect(written().stderr).toBe('');
});

test('--watch prints each change as a document, from the beginning on', async () => {
  const { stdout, stderr } = await shown(true, true);
  const documents = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(documents.map((each) => `${each.case} ${each.status}`)).toEqual([
    ...['a done', 'b waiting', 'c waiting', 'd waiting', 'a done', 'b running', 'b done', 'c failed'],
    ...['a done'],
  ]);
  expect(documents[6]).toEqual({
    ...{
      case: 'b',
      subject: null,
      session: null,
      status: 'done',
      reason: null,
      kind: null,
      version: null,
      edited: [],
      seconds: 65,
    },
    ...{ job_id: 'j', is_new: true, numbers: { ml: 2 } },
  });
  expect(stderr).toBe(away);
  // Also where stderr is a terminal.
  expect((await shown(true, true, true)).stdout).toBe(stdout);
});

beforeEach(() => void vi.useFakeTimers({ toFake: ['hrtime', 'setInterval', 'clearInterval'] }));
afterEach(() => void vi.useRealTimers());

/** A block on a terminal, and its rows as they are after its next redraw; those that stay the same are empty. */
async function block(states: readonly CaseState[]) {
  const { io, written } = command(true);
  const view = await openCohortView(io, false, false);
  view.began(states);
  let seen = 0;
  const rows = () => {
    seen = written().stderr.length;
    vi.advanceTimersByTime(200);
    const text = stripVTControlCharacters(written().stderr.slice(seen));
    return text
      .split('\n')
      .map((row) => row.trim())
      .filter(Boolean);
  };
  return { view, rows, all: () => stripVTControlCharacters(written().stderr), raw: () => written().stderr };
}

test('On a terminal, each case in progress has a row with its activity, below what all cases wait for', async () => {
  const { view, rows, all } = await block(cases);
  for (const name of ['a', 'b', 'c']) view.changed(stateOf(name, 'sending'));
  view.reporterOf('a').progress('Uploading', 1, 4);
  view.reporterOf('b').progress('Uploading', 1, 0);
  expect(rows()).toEqual([
    '0 of 4 done, 3 in progress, 1 waiting',
    ...['a  Uploading 25%', 'b  Uploading', 'c  sending'],
  ]);
  await view.reporterOf('a').line('loading weights', false, 1);
  await view.reporterOf('a').line('[remote-app] position 2', false, 1);
  await view.reporterOf('b').line('45%|####      | 45/100 [00:10<00:12, 4.5it/s]', false, 1);
  const [first, bar] = rows();
  expect(first).toBe('a  loading weights');
  expect(bar).toMatch(/^b {2}.*45%.*45\/100/);
  for (const name of ['a', 'b']) view.reporterOf(name).waiting('The server does not answer');
  expect(rows()).toEqual(['The server does not answer', 'a  sending', 'b  sending', 'c  sending']);
  view.reporterOf('b').waiting('No GPU works', true);
  expect(rows()).toEqual(['No GPU works', 'a  The server does not answer']);
  view.changed(stateOf('a', 'failed', { reason: 'out of memory' }));
  // A case that is begun anew says nothing of before.
  await view.reporterOf('b').line('of before', false, 3);
  view.reporterOf('b').waiting(null);
  view.changed(stateOf('b', 'done', { seconds: 60 }));
  view.changed(stateOf('b', 'running'));
  expect(rows().slice(1)).toEqual(['b  running', 'c  sending', 'a: out of memory']);
  const before = all().length;
  view.close();
  view.close();
  view.changed(stateOf('c', 'done'));
  vi.advanceTimersByTime(1000);
  expect(all().slice(before).trim()).toBe('');
});

test('The last five failures are shown, names are cut in the middle, and a summary replaces the block', async () => {
  const long = `sub-01_${'x'.repeat(50)}_T1w`;
  const failed = Array.from({ length: 7 }, (_, at) => stateOf(`case${at}`, 'failed', { reason: 'no' }));
  const { view, rows, raw } = await block([...failed, stateOf(long, 'waiting')]);
  view.changed(stateOf(long, 'running'));
  const shortened = `${long.slice(0, 20)}…${long.slice(-19)}`;
  expect(rows()).toEqual([
    '0 of 8 done, 1 in progress, 0 waiting, 7 failed',
    `${shortened}  running`,
    ...['case2: no', 'case3: no', 'case4: no', 'case5: no', 'case6: no'],
  ]);
  const before = raw().length;
  view.close(true);
  // Everything below is cleared.
  expect(raw().slice(before)).toContain('\u001b[J');
  expect(stripVTControlCharacters(raw().slice(before)).trim()).toBe('');
});
