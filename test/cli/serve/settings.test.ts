import { writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { Parser } from '@oclif/core';
import { expect, test } from 'vitest';
import { type ServeFlags, serveFlags } from '../../../src/cli/serve/flags.js';
import { usableProcessors } from '../../../src/cli/serve/processors.js';
import { serverSettings } from '../../../src/cli/serve/settings.js';
import { longestDuration } from '../../../src/contract/index.js';
import { list } from '../../support/list.mjs';
import { temporary } from '../../support/temporary.js';

const place = { version: '1.2.3', root: '/package', dataDir: '/home/me/.local/share/remote-app' };

async function settings(argv: readonly string[], environment: NodeJS.ProcessEnv = {}) {
  const { flags } = await Parser.parse([...argv], { flags: serveFlags, strict: true });
  return serverSettings(flags as unknown as ServeFlags, place, environment);
}

test('Without flags, a server listens only on this machine, keeps jobs for a week at most, and requires no token', async () => {
  expect(await settings([], { USER: 'me' })).toEqual({
    version: '1.2.3',
    environment: { USER: 'me' },
    ...{ host: '127.0.0.1', port: 8000, metrics: false, metricsAt: null },
    ...{ token: null, tokensFile: null, auditLog: null, trustedProxies: [], proxySecret: null },
    secretFiles: [],
    tokenVariables: ['SERVICE_API_TOKEN'],
    ...{
      apps: [],
      namedApps: { network: [], 'share-workers': [] },
      engine: ['konfai-apps'],
      residentEngines: null,
      residentIdle: 600_000,
    },
    download: false,
    dataDirectory: '/home/me/.local/share/remote-app/serve',
    userLimits: { max_jobs: null, max_kept: null },
    ...{ maxJobs: 256, diskPerJob: null, maxFileSize: 2 * 2 ** 30, maxUploadSize: 6 * 2 ** 30 },
    ...{ maxDatasetSize: null, requireDeidentified: false, grace: 120_000, maxKeep: 7 * 86_400_000 },
    ...{ keepUploads: 86_400_000, maxRunTime: null, maxFineTuneTime: null, keepAlive: 15_000 },
    ...{
      cpuSlots: usableProcessors(),
      processors: usableProcessors(),
      gpuMargin: null,
      slurm: null,
      onExit: 'kill',
      onEnd: null,
    },
    sandbox: 'auto',
    ...{ jobLimits: { processes: 4096, memory: null }, binds: [], passEnvironment: [] },
  });
});

test('Each flag has its own setting, in base units and with absolute paths', async () => {
  const argv = [
    ...['--host=0.0.0.0', '--port=9', '--metrics-port=10', '--metrics-host=::1', '--token-env=MINE'],
    ...['--tokens=tokens.json', '--audit-log=audit.log', '--trusted-proxy=10.0.0.1', '--apps=a', '--apps=b'],
    ...['--network=a', '--share-workers=b', '--engine=./bin/engine  --fast'],
    ...['--engine-resident', '--resident-idle=1m'],
    ...list`--download --data-dir=data --max-jobs=7 --user-max-jobs=3 --user-max-kept=5GiB
      --disk-per-job=3GiB --max-file-size=1GiB`,
    ...['--max-upload-size=2GiB', '--max-dataset-size=4GiB', '--require-deidentified', '--grace=5'],
    ...['--max-keep=2h', '--keep-uploads=3h', '--max-run-time=4h', '--max-fine-tune-time=5h'],
    ...['--keepalive=6', '--cpu-slots=3', '--on-exit=keep', '--on-end=notify --all', '--sandbox=bwrap'],
    ...['--processes-per-job=99', '--memory-per-job=1GiB', '--bind=~/weights', '--bind-rw=cache'],
    ...['--pass-env=HF_TOKEN', '--share-gpus', '--gpu-margin=1GiB'],
  ];
  const here = (name: string) => path.resolve(name);
  const given = await settings(argv, { MINE: 'secret' });
  expect(given).toEqual({
    version: '1.2.3',
    environment: { MINE: 'secret' },
    ...{ host: '0.0.0.0', port: 9, metrics: true, metricsAt: { host: '::1', port: 10 } },
    ...{ token: 'secret', tokensFile: here('tokens.json'), auditLog: here('audit.log') },
    ...{ trustedProxies: ['10.0.0.1'], proxySecret: null },
    secretFiles: [here('tokens.json'), here('audit.log')],
    tokenVariables: ['SERVICE_API_TOKEN', 'MINE'],
    ...{
      apps: ['a', 'b'],
      namedApps: { network: ['a'], 'share-workers': ['b'] },
      engine: [here('bin/engine'), '--fast'],
    },
    ...{ residentEngines: '/package/engines', residentIdle: 60_000, download: true },
    dataDirectory: here('data'),
    userLimits: { max_jobs: 3, max_kept: 5 * 2 ** 30 },
    ...{ maxJobs: 7, diskPerJob: 3 * 2 ** 30, maxFileSize: 2 ** 30, maxUploadSize: 2 * 2 ** 30 },
    ...{ maxDatasetSize: 4 * 2 ** 30, requireDeidentified: true, grace: 5000, maxKeep: 2 * 3_600_000 },
    ...{ keepUploads: 3 * 3_600_000, maxRunTime: 4 * 3_600_000, maxFineTuneTime: 5 * 3_600_000 },
    ...{
      keepAlive: 6000,
      cpuSlots: 3,
      processors: usableProcessors(),
      slurm: null,
      onExit: 'keep',
      onEnd: ['notify', '--all'],
    },
    ...{ gpuMargin: 2 ** 30, sandbox: 'bwrap', jobLimits: { processes: 99, memory: 2 ** 30 } },
    binds: [
      { path: path.join(homedir(), 'weights'), isWritable: false },
      { path: here('cache'), isWritable: true },
    ],
    passEnvironment: ['HF_TOKEN'],
  });
  expect(await settings(['--metrics', '--max-run-time=4h'])).toMatchObject({
    ...{ metrics: true, metricsAt: null, maxRunTime: 4 * 3_600_000, maxFineTuneTime: 4 * 3_600_000 },
  });
  // An environment that still has a token gives none to a server that asks for none.
  expect((await settings(['--auth=off'], { SERVICE_API_TOKEN: 'x' })).token).toBeNull();
});

test('A program is a single word if a file has that name', async () => {
  await using directory = await temporary();
  const program = path.join(directory.path, 'my engine');
  writeFileSync(program, '');
  expect((await settings([`--engine=${program}`])).engine).toEqual([program]);
  expect((await settings([`--engine=${program}s`])).engine).toEqual([
    path.join(directory.path, 'my'),
    'engines',
  ]);
});

test.each([
  [['--auth=required'], {}, /^--auth required, and there is no token: .* or set SERVICE_API_TOKEN$/],
  [['--auth=off', '--tokens=t'], {}, /^--auth off asks nobody for a token, and --tokens names tokens/],
  [['--sandbox=off', '--memory-per-job=1GiB'], {}, /^--memory-per-job is held by the sandbox of a job/],
  [[], { SERVICE_API_TOKEN: ' ' }, /^SERVICE_API_TOKEN is blank: set it to a token/],
  [['--token-file=absent'], {}, /^The token file 'absent' cannot be read: no such file/],
])('%s is refused', async (argv, environment, sentence) => {
  await expect(settings(argv, environment)).rejects.toThrow(sentence);
});

test.each([
  ['port', 0, 65_535],
  ['metrics-port', 0, 65_535],
  ['max-jobs', 1, null],
  ['grace', 0, longestDuration],
  ['keepalive', 1, 86_400],
  ['cpu-slots', 1, null],
  ['processes-per-job', 1, null],
] as const)('--%s accepts values from %j to %j', async (name, least, most) => {
  const given = (value: number) => settings([`--${name}=${value}`]);
  await given(least);
  await expect(given(least - 1)).rejects.toThrow(`--${name} must be at least ${least}, got '${least - 1}'`);
  await given(most ?? 1_000_000);
  if (most !== null)
    await expect(given(most + 1)).rejects.toThrow(`--${name} must be at most ${most}, got '${most + 1}'`);
});

test.each([
  ['memory-per-job', '64MiB', '63MiB', 'a size of at least 64MiB, such as 8GiB'],
  ['disk-per-job', '1', '0', 'a size such as 2GiB, 2G (the same) or 500MB'],
  ['max-run-time', '1s', '0s', 'a time of at least a second, such as 2h'],
  ['max-keep', '0', '1y', 'a time such as 90s, 12h or 7d'],
  ['host', 'a', ' ', 'a value that is not empty'],
  ['data-dir', 'a', '', 'a value that is not empty'],
] as const)('--%s accepts %j, but not %j', async (name, right, wrong, takes) => {
  await settings([`--${name}=${right}`]);
  await expect(settings([`--${name}=${wrong}`])).rejects.toThrow(`--${name} takes ${takes}, got '${wrong}'`);
});
