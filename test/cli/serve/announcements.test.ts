import { EventEmitter } from 'node:events';
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

test('a start names twenty apps, and counts the others', () => {
  const apps = Array.from({ length: 22 }, (_, at) => `app${at + 1}`);
  expect(saidOf({ apps: apps.slice(0, 20) }).log[0]).toMatch(/^Serving 20 apps: app1, .*, app20\.$/);
  expect(saidOf({ apps }).log[0]).toMatch(/^Serving 22 apps: app1, .*, app20 and 2 more\.$/);
  expect(saidOf({ apps: [] }).log[0]).toBe('No app is allowed: name at least one with --apps.');
});

test('its address is alone on stdout; without one in the log', () => {
  const recovered = { ended: 1, active: 2 };
  const problems = { appProblems: ['tissue: no app.json'], metricsUrl: 'http://m:2', recovered };
  expect(saidOf(problems)).toEqual({
    log: [
      ...usual,
      'WARNING: tissue: no app.json',
      'Recovered 2 active and 1 finished jobs.',
      'Metrics at http://m:2/metrics',
    ],
    stdout: ['Listening on http://h:1'],
  });
  expect(saidOf({}, { isWritten: false }).log.at(-1)).toBe(
    'Listening on http://h:1 (stdout could not be written to)',
  );
  const [line = ''] = saidOf({}, { format: 'json' }).stdout;
  expect(JSON.parse(line)).toMatchObject({ message: 'Listening on http://h:1' });
});

const gpu = (id: number, more: object = {}) => ({ id, name: 'H100', ...more });

test('it says which GPUs there are, and which of them do not work', () => {
  const failed = [gpu(1, { fault: 'it has fallen off the bus' })];
  const inventory = Object.assign(new EventEmitter(), {
    ...{ current: [gpu(0)], inWords: '0 (H100)', whyNone: 'no nvidia-smi', failed },
  });
  const [broken = '', ...found] = saidOf({ gpus: inventory }).log.slice(usual.length);
  const left =
    "WARNING: GPU 1 does not work (nvidia-smi says 'it has fallen off the bus'): it is left out, and gets no jobs.";
  expect(broken).toBe(left);
  expect(found).toEqual(['Found 1 GPU: 0 (H100).']);
  expect(saidOf({ gpus: Object.assign(inventory, { current: [], failed: [] }) }).log.at(-1)).toBe(
    'No GPU found (no nvidia-smi): jobs run on the CPU.',
  );
});

test('of GPUs that are not known it says what to do, and what comes of it', () => {
  for (const [current, sentence] of [
    [[gpu(0), gpu(1)], 'nvidia-smi answers now: GPU 0, 1. Jobs that waited for one go on.'],
    [[], 'nvidia-smi answers now: this machine has no GPU. Jobs run on the CPU.'],
  ] as const) {
    const log = kept();
    const inventory = Object.assign(new EventEmitter(), {
      ...{ current: null as readonly object[] | null, problem: 'nvidia-smi took too long' },
      failed: [] as readonly object[],
      times: { firstPause: 5000, longestPause: 60_000 },
    });
    const server = { apps: ['a'], dataDirectory: '/d', appProblems: [], recovered: { ended: 0, active: 0 } };
    introduce(
      { ...server, gpus: inventory, url: 'x' } as unknown as RunningServer,
      new ServerLog(log.output),
      kept().output,
    );
    inventory.current = current;
    inventory.failed = [gpu(7, { fault: 'ERR!' })];
    inventory.emit('known');
    inventory.failed = [];
    inventory.emit('known');
    expect(log.lines().slice(2)).toEqual([
      'WARNING: the GPUs of this machine are not known: nvidia-smi took too long.',
      'WARNING: Jobs that need a GPU wait until they are; jobs on the CPU run.',
      'WARNING: nvidia-smi is asked again every 5 to 60 seconds.',
      'WARNING: If this machine has no GPU, set CUDA_VISIBLE_DEVICES= (empty) and start the server again.',
      "WARNING: GPU 7 does not work (nvidia-smi says 'ERR!'): it is left out, and gets no jobs.",
      sentence,
    ]);
  }
});

test('it says what a job in a sandbox sees and may use, and what it does not see', () => {
  const sandbox = {
    ...{ version: 'bubblewrap 0.9', problem: null, unfiltered: '', blindSpots: [], offline: [] },
    ...{ binds: [], limits: { processes: null, memory: null } },
  };
  expect(saidOf({ sandbox }).log.slice(usual.length)).toEqual([
    'Jobs run in sandboxes (bubblewrap 0.9). They see the system, their app, their own files.',
  ]);
  const wide = {
    ...sandbox,
    ...{ unfiltered: 'no filter for this machine', blindSpots: ['HF_HOME'], offline: ['hub'] },
    binds: [
      { path: '/weights', isWritable: false },
      { path: '/cache', isWritable: true },
    ],
    limits: { processes: 100, memory: 8 * 2 ** 30 },
  };
  expect(saidOf({ sandbox: wide }).log.slice(usual.length)).toEqual([
    'Jobs run in sandboxes (bubblewrap 0.9). They see the system, their app, their own files, /weights, /cache (writable).',
    "WARNING: jobs share this user's keys in the kernel, and may use sockets of virtual machines (AF_VSOCK): no filter for this machine.",
    'A job may use 100 processes and threads and 8.0 GiB of memory; it is ended when it uses more.',
    'WARNING: HF_HOME: jobs do not see that place in their sandbox; show it to them with --bind or --bind-rw.',
    'WARNING: hub: its jobs have no network to fetch what is missing of the repository; fetch it at the start with --download, or allow --network hub.',
  ]);
  const without = { ...wide, version: null, problem: 'bwrap is not installed' };
  const said = [
    'WARNING: jobs run without a sandbox: bwrap is not installed.',
    'WARNING: An app can read the files of every job, and all that this user can read.',
    'WARNING: --memory-per-job is not held without a sandbox.',
    'WARNING: To run them this way without a warning: --sandbox off.',
  ];
  expect(saidOf({ sandbox: without }).log.slice(usual.length)).toEqual(said);
  const unlimited = { ...without, limits: { processes: 100, memory: null } };
  expect(saidOf({ sandbox: unlimited }).log.slice(usual.length)).toEqual(said.toSpliced(2, 1));
});

test('it says which cluster runs the jobs', () => {
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
    'WARNING: Slurm does not take jobs at the moment: slurmctld does not answer.',
    'WARNING: New jobs wait until it does; jobs that run go on.',
  ]);
});

test('a server that asks nobody for a token says so, loudly where others can reach it', () => {
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
