import { chmodSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { checkApp, checkServer, type Finding } from '../../src/server/check.js';
import type { ServerSettings } from '../../src/server/settings.js';
import { FakeNvidiaSmi } from '../support/nvidia-smi.js';
import { plant, temporary } from '../support/temporary.js';
import { TestTokens } from '../support/tokens.js';

const manifest = { display_name: 'x', description: 'x', short_description: 'x', tta: 0, mc_dropout: 0 };
const appJson = (more: object = {}) => JSON.stringify({ ...manifest, ...more });

async function place(files: Readonly<Record<string, string>> = {}): Promise<string> {
  const root = await temporary();
  onTestFinished(() => root[Symbol.asyncDispose]());
  await plant(root.path, files);
  return root.path;
}

const searched = `${path.resolve('test/fixtures/bin')}:${process.env.PATH}`;

/** Settings that ask for as little as there is. */
const least = {
  ...{ host: '127.0.0.1', port: 0, metricsAt: null, token: 'secret', tokensFile: null, auditLog: null },
  ...{ trustedProxies: [], secretFiles: [], tokenVariables: [], apps: [], networkApps: [] },
  ...{ engine: ['no-such-engine'], residentEngines: null, residentIdle: 0, slurm: null, onEnd: null },
  ...{ requireDeidentified: false, sandbox: 'off', binds: [] },
  environment: { PATH: searched, CUDA_VISIBLE_DEVICES: '' },
} as const;

async function all(findings: AsyncIterable<Finding>): Promise<string[]> {
  const said: string[] = [];
  for await (const { kind, about, says } of findings)
    if (about !== 'user') said.push(`${kind} ${about}: ${says}`);
  return said;
}

/** What is found with these settings, and without the lines that are there with the least of them. */
async function found(root: string, settings: object): Promise<string[]> {
  const dataDirectory = path.join(root, 'data');
  const given = { ...least, dataDirectory, ...settings } as unknown as ServerSettings;
  const usual = [
    'note apps: none is allowed: name one with --apps',
    `ok data directory: ${dataDirectory}, which the start makes`,
    'ok address: 127.0.0.1, any free port',
    'ok token: there is one of the admin',
    'ok GPUs: none (CUDA_VISIBLE_DEVICES names none): jobs run on the CPU',
    'note sandbox: off: jobs see what this user sees',
  ];
  const said = await all(checkServer(given));
  return said.filter((line) => !usual.includes(line)).map((line) => line.replaceAll(root, '.'));
}

test('with the least of settings there is a line for each thing that a server needs', async () => {
  const root = await place();
  expect(await found(root, {})).toEqual([]);
  expect(await all(checkServer({ ...least, dataDirectory: root } as unknown as ServerSettings))).toEqual([
    'note apps: none is allowed: name one with --apps',
    `ok data directory: ${root}`,
    'ok address: 127.0.0.1, any free port',
    'ok token: there is one of the admin',
    'ok GPUs: none (CUDA_VISIBLE_DEVICES names none): jobs run on the CPU',
    'note sandbox: off: jobs see what this user sees',
  ]);
  expect(readdirSync(root)).toEqual([]);
});

test('what is asked for in addition has a line of its own', async () => {
  const root = await place({ 'end.sh': '' });
  chmodSync(path.join(root, 'end.sh'), 0o755);
  const program = path.join(root, 'end.sh');
  const settings = {
    metricsAt: { host: 'localhost', port: 0 },
    trustedProxies: ['10.0.0.0/8', '::1'],
    auditLog: path.join(root, 'audit.log'),
    onEnd: [program, 'a b'],
    requireDeidentified: true,
    engine: ['sh', '-x'],
    residentEngines: root,
  };
  expect(await found(root, settings)).toEqual([
    'ok resident engine: sh -x',
    'ok address: localhost, any free port',
    'ok trusted proxy: 10.0.0.0/8, ::1',
    'ok audit log: ./audit.log',
    'ok program for ends: ./end.sh a b',
    'ok submissions: only those that are de-identified',
  ]);
  expect(readdirSync(root)).toEqual(['end.sh']);
});

test('a problem of one thing leaves the others looked at', async () => {
  const root = await place({ file: '', 'a/app.json': appJson({ command: ['true'] }) });
  const settings = {
    apps: [path.join(root, 'a')],
    networkApps: ['a', 'b'],
    onEnd: [path.join(root, 'file')],
    trustedProxies: ['nobody'],
    dataDirectory: path.join(root, 'file'),
  };
  expect(await found(root, settings)).toEqual([
    'problem apps: --network b: there is no such app; there are: a',
    expect.stringMatching(/^problem data directory: .*\.\/file/),
    expect.stringMatching(/^problem trusted proxy: .*'nobody'/),
    expect.stringMatching(/^problem program for ends: .*it is not a file that can be executed/),
  ]);
});

test('apps are told by where they are, with all that is wrong and all that is missing', async () => {
  const root = await place({
    'apps/good/app.json': appJson({ command: ['true'] }),
    'apps/half/app.json': appJson({ command: ['no-such-program'], models: ['a.pt'] }),
    'own/app.json': appJson(),
  });
  const apps = ['apps', 'own'].map((name) => path.join(root, name));
  const ofApps = [
    'ok app good: ./apps/good',
    "problem app half: ./apps/half/app.json, line 1: command.0: there is no program 'no-such-program' that can be run",
    'note app half: ./apps/half/app.json, line 1: models.0: the file a.pt is not there',
    'ok app own: ./own',
  ];
  expect(await found(root, { apps })).toEqual([
    ...ofApps,
    "problem engine: There is no program 'no-such-engine', the engine that runs own: install it, or name it with --engine",
  ]);
  expect(await found(root, { apps, engine: ['sh', '-x'] })).toEqual([...ofApps, 'ok engine: sh -x']);
  expect(await found(root, { apps: apps.slice(0, 1) })).toEqual(ofApps.slice(0, 3));
});

test('tokens are counted as far as they are valid, and an open server is told', async () => {
  const root = await place();
  await using tokens = new TestTokens();
  for (const name of ['ana', 'bob', 'eve']) tokens.create(name, name === 'ana' ? { apps: ['lost'] } : {});
  tokens.revoke('eve');
  const apps = "it has: none ('remote-app token limit ana --apps ...' changes what the token has)";
  const named = [
    `ok token: 2 valid named tokens in ${tokens.file}`,
    `note token ana: the server has no app 'lost'; ${apps}`,
  ];
  expect(await found(root, { tokensFile: tokens.file })).toEqual(named);
  const without = await all(
    checkServer({ ...least, dataDirectory: root, token: null, tokensFile: tokens.file } as never),
  );
  expect(without.filter((line) => / token/.test(line))).toEqual(named);
  expect(await found(root, { token: null })).toEqual([
    'note token: there is none: every endpoint is open to whoever reaches 127.0.0.1',
  ]);
  // Which apps there are cannot be told.
  expect(await found(root, { tokensFile: tokens.file, apps: [path.join(root, 'none', 'x')] })).toEqual([
    expect.stringMatching(/^problem apps: /),
    named[0],
  ]);
});

test.each([
  ['well', '2', ['ok GPUs: 0 (NVIDIA H200), 1 (NVIDIA H200)']],
  [
    'dead',
    '2',
    ['ok GPUs: 0 (NVIDIA H200)', "note GPUs: GPU 1 does not work (nvidia-smi says '[GPU is lost]')"],
  ],
  ['fail', '2', [expect.stringMatching(/^problem GPUs: nvidia-smi failed \(exit code 9\)/)]],
  ['well', '0', ['ok GPUs: none (nvidia-smi shows none): jobs run on the CPU']],
] as const)('an nvidia-smi that answers %j about %s GPUs', async (mode, count, said) => {
  using smi = new FakeNvidiaSmi(mode);
  const environment = { PATH: searched, FAKE_GPUS: count, ...smi.environment };
  expect(await found(await place(), { environment })).toEqual(said);
  // A cluster has others.
  expect(smi.running).toEqual([]);
});

test('an address that is in use is one that the server with these settings may have', async () => {
  const root = await place();
  await using other = await listening();
  const { port } = other;
  expect(await found(root, { port })).toEqual([
    expect.stringMatching(/^note address: Cannot listen .* in use/),
  ]);
  expect(await found(root, { host: '192.0.2.1', port })).toEqual([
    expect.stringMatching(/^problem address: Cannot listen /),
  ]);
});

/** A port of this machine that something listens at. */
async function listening() {
  const { createServer } = await import('node:net');
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  return { port, [Symbol.asyncDispose]: async () => void server.close() };
}

const environment = { PATH: process.env.PATH };

test('an app of the engine, or without inference, is not tried', async () => {
  const root = await place({ 'engine/app.json': appJson({ inputs: {} }), 'broken/app.json': '{' });
  const check = async (name: string, seconds: number | null = 10) =>
    (await all(checkApp(path.join(root, name), seconds, environment))).map((line) =>
      line.replaceAll(root, '.'),
    );
  expect(await check('engine')).toEqual([
    'ok app engine: ./engine',
    'note trial run: it has no command of its own: the engine of a server runs it, and it was not tried',
  ]);
  expect(await check('engine', null)).toEqual(['ok app engine: ./engine']);
  expect(await check('broken')).toEqual([
    expect.stringMatching(/^problem app broken: \.\/broken\/app\.json, line 1: it is not JSON: /),
  ]);
  const evaluation = { Dice: { 'e.yml': { A: { display_name: 'x', volume_type: 'VOLUME' } } } };
  await plant(root, {
    'evaluating/app.json': appJson({ command: ['true'], inputs_evaluations: evaluation }),
    'evaluating/e.yml': '',
  });
  expect(await check('evaluating')).toEqual([
    'ok app evaluating: ./evaluating',
    'note trial run: it declares no inference, so it was not tried',
  ]);
});
