import { expect, test } from 'vitest';
import { introduce, warnOfOpenness } from '../../../src/cli/serve/announcements.js';
import { type Output, ServerLog } from '../../../src/cli/serve/server-log.js';
import type { RunningServer } from '../../../src/server/running-server.js';
import type { ServerSettings } from '../../../src/server/settings.js';

/** Keeps what is written. */
function kept(isWritten = true) {
  let text = '';
  const output: Output = {
    write: (piece) => {
      text += piece;
      return isWritten;
    },
  };
  return { output, lines: () => text.trimEnd().split('\n') };
}

/** What a start says of such a server: in its log, and on stdout. */
function saidOf(facts: object, { isWritten = true, format = 'text' as 'text' | 'json' } = {}) {
  const [log, stdout] = [kept(), kept(isWritten)];
  const server = {
    url: 'http://h:1',
    dataDirectory: '/data',
    apps: ['tissue'],
    appProblems: [],
    recovered: { ended: 0, active: 0 },
    ...facts,
  };
  const serverLog = new ServerLog(log.output, { format, level: 'info' });
  introduce(server as unknown as RunningServer, serverLog, stdout.output);
  return { log: log.lines(), stdout: stdout.lines() };
}

const usual = ['Serving 1 app: tissue.', 'Jobs are kept in /data.'];

test('The startup message names twenty apps, and counts the others', () => {
  const apps = Array.from({ length: 22 }, (_, at) => `app${at + 1}`);
  expect(saidOf({ apps: apps.slice(0, 20) }).log[0]).toMatch(/^Serving 20 apps: app1, .*, app20\.$/);
  expect(saidOf({ apps }).log[0]).toMatch(/^Serving 22 apps: app1, .*, app20 and 2 more\.$/);
  expect(saidOf({ apps: [] }).log[0]).toBe('No app is allowed: give at least one with --apps.');
});

test('The startup message says which cluster runs the jobs', () => {
  const found = (size: object | null, problem: string | null = null) =>
    saidOf({ cluster: { version: 'slurm 24.05', size, problem } }).log.slice(usual.length);
  expect(found({ nodes: 2, gpus: 8 })).toEqual([
    'Jobs run on a Slurm cluster (slurm 24.05): 2 nodes, 8 GPUs.',
  ]);
  expect(found({ nodes: 1, gpus: 0 })).toEqual([
    'Jobs run on a Slurm cluster (slurm 24.05): 1 node, no GPU.',
    'Jobs run on the CPU of its nodes.',
  ]);
  expect(found(null, 'slurmctld does not answer')).toEqual([
    'Jobs run on a Slurm cluster (slurm 24.05).',
    'WARNING: Slurm does not accept jobs at the moment: slurmctld does not answer.',
    'WARNING: New jobs wait until it does; running jobs continue.',
  ]);
});

test('A server that requires no token says so, more loudly if others can reach it', () => {
  const said = (settings: object, isAsked = false) => {
    const log = kept();
    const open = { token: null, tokensFile: null, tokenVariables: ['SERVICE_API_TOKEN', 'MINE'] };
    warnOfOpenness({ ...open, ...settings } as unknown as ServerSettings, isAsked, new ServerLog(log.output));
    return log.lines();
  };
  expect(said({ host: '127.0.0.1' })).toEqual([
    'WARNING: authentication is off (no token in MINE): every endpoint is open to whoever reaches 127.0.0.1.',
  ]);
  expect(said({ host: '0.0.0.0' }, true)).toEqual([
    'WARNING: authentication is off (--auth off): every endpoint is open to whoever reaches 0.0.0.0.',
    expect.stringMatching(/^WARNING: =+$/),
    'WARNING: 0.0.0.0 can be reached from other machines: anybody there can',
    'WARNING: run jobs here and read results. Set a token, or use --host 127.0.0.1.',
    expect.stringMatching(/^WARNING: =+$/),
  ]);
  expect(said({ host: '0.0.0.0', token: 'x' })).toEqual(['']);
  expect(said({ host: '0.0.0.0', tokensFile: '/t' })).toEqual(['']);
});
