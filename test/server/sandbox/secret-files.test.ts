import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { blindSpots } from '../../../src/server/sandbox/blind-spots.js';
import { isOfSecret, namesOf } from '../../../src/server/sandbox/secret-files.js';
import { Cli } from '../../support/cli.js';
import { least, steps } from '../../support/form.js';
import { lacks } from '../../support/needs.mjs';
import { sandbox } from '../../support/sandbox.js';
import { apps, TestServer } from '../../support/server.js';
import { temporary } from '../../support/temporary.js';
import { doing } from '../resident/support.js';

const secret = 'the-secret-of-the-server';

const withoutOpt = lacks('a directory /opt that can be written to');

/** A directory that is removed at the end. */
function madeIn(parent: string): Disposable & { readonly path: string } {
  const directory = mkdtempSync(path.join(parent, 'remote-app-test-'));
  return { path: directory, [Symbol.dispose]: () => rmSync(directory, { recursive: true, force: true }) };
}

interface Replaced {
  readonly app: string;
  /** The token file. */
  readonly file: string;
  readonly flags?: readonly string[];
  /** A command that the job runs first. */
  readonly first?: string;
}

/** What a job sees of the directory of a token file that is replaced while the job runs, also under other names. */
async function seenBeside({ app, file, flags = [], first = 'true' }: Replaced): Promise<string> {
  const directory = path.dirname(file);
  const write = (name: string, text: string) => writeFileSync(name, `${text}\n`, { mode: 0o600 });
  write(file, secret);
  write(`${file}.1`, `${secret}-left-over`);
  await using server = await TestServer.start({
    token: secret,
    apps: [app],
    app: path.basename(app),
    flags: ['--sandbox', 'bwrap', '--token-file', file, ...flags],
  });
  const look = `ls ${directory}; cat ${file} ${file}.* ${directory}/other; grep -rs ${secret} ${directory}; true`;
  const shell = `${first}; echo ready; while [ ! -e go ]; do sleep 0.02; done; exec 2>&1; ${look}`;
  const id = await server.api.running('infer', { ...least.infer, ...steps(`shell=${shell}`) }, 'ready');
  write(`${file}.new`, `${secret}-replaced`);
  renameSync(file, `${file}.2`);
  renameSync(`${file}.new`, file);
  write(path.join(directory, 'other'), secret);
  writeFileSync(path.join(server.jobDirectory(id), 'Output', 'go'), '');
  const { log, view } = await server.api.ended(id);
  expect(view.status).toBe('done');
  return log;
}

describe.runIf(sandbox)('a token file that is replaced is not seen by a job that runs', () => {
  test('in the directory of its app', async () => {
    await using root = await temporary();
    const app = path.join(root.path, 'probe');
    cpSync(apps.probe, app, { recursive: true });
    const seen = await seenBeside({ app, file: path.join(app, 'token') });
    expect(seen).toContain('data: app.json\n');
    expect(seen).not.toContain(secret);
    expect(seen).not.toMatch(/^data: token/m);
  });

  test('in a directory that the admin shows, with what else is there', async () => {
    await using root = await temporary();
    const shown = path.join(root.path, 'shown');
    mkdirSync(path.join(shown, 'models', 'cache'), { recursive: true });
    writeFileSync(path.join(shown, 'list'), 'models\n');
    symlinkSync('list', path.join(shown, 'link'));
    const cache = path.join(shown, 'models', 'cache');
    const flags = ['--bind', shown, '--bind-rw', cache];
    const file = path.join(shown, 'token');
    const seen = await seenBeside({ app: apps.probe, file, flags, first: `echo kept > ${cache}/file` });
    expect(readFileSync(path.join(cache, 'file'), 'utf8')).toBe('kept\n');
    expect(seen).toContain('data: link\n\ndata: list\n\ndata: models\n');
    expect(seen).not.toContain(secret);
    expect(seen).not.toMatch(/^data: (token|other)/m);
  });

  test.skipIf(withoutOpt)('in a directory of the system', async () => {
    using own = madeIn('/opt');
    writeFileSync(path.join(own.path, 'list'), '');
    const seen = await seenBeside({ app: apps.probe, file: path.join(own.path, 'token') });
    expect(seen).not.toContain(secret);
    expect(seen).not.toContain('data: list\n');
  });

  test.skipIf(withoutOpt)('in a directory of the system that also holds the app', async () => {
    using own = madeIn('/opt');
    const app = path.join(own.path, 'probe');
    cpSync(apps.probe, app, { recursive: true });
    const seen = await seenBeside({ app, file: path.join(own.path, 'token') });
    expect(seen).toContain('data: probe\n');
    expect(seen).not.toContain(secret);
  });
});

test.runIf(sandbox)('a loaded app does not see tokens that are made after it was loaded', async () => {
  await using root = await temporary();
  await using cli = await Cli.create();
  const tokens = path.join(root.path, 'tokens.json');
  const create = (name: string) => cli.run(['token', 'create', name, '--tokens', tokens]);
  await create('ana');
  await using server = await TestServer.start({
    token: secret,
    apps: [apps.resident],
    app: 'resident',
    flags: ['--sandbox', 'bwrap', '--tokens', tokens, '--bind', root.path],
  });
  expect((await server.api.run('infer', doing())).view).toMatchObject({ status: 'done', start: 'cold' });
  await create('ben');
  const { view, log } = await server.api.run('infer', doing(`read:${tokens}`));
  expect(view.start).toBe('warm');
  expect(log).toContain('ENOENT');
});

describe('serve refuses to start', () => {
  const refusal = async (flags: readonly string[]) => {
    await using cli = await Cli.create();
    const { code, stderr } = await cli.run(['serve', '--port', '0', '--data-dir', 'data', ...flags]);
    return [code, stderr.trim().split('\n').at(-1)];
  };

  test('with a --bind-rw that holds the audit log, the token file, or a link to it', async () => {
    await using root = await temporary();
    const [shown, beside] = ['shown', 'beside'].map((name) => path.join(root.path, name)) as [string, string];
    mkdirSync(path.join(shown, 'below'), { recursive: true });
    mkdirSync(beside);
    writeFileSync(path.join(beside, 'token'), secret, { mode: 0o600 });
    symlinkSync(beside, path.join(shown, 'below', 'link'));
    symlinkSync(shown, path.join(beside, 'shown'));
    const through = path.join(beside, 'shown', 'below');
    for (const flag of [
      ['--audit-log', path.join(through, 'audit.jsonl')],
      ['--token-file', path.join(through, 'link', 'token')],
    ]) {
      expect(await refusal(['--bind-rw', shown, ...flag])).toEqual([
        2,
        expect.stringMatching(
          /--bind-rw \S+: \S+\/shown\/below\/(audit.jsonl|link) is there, and no job may/,
        ),
      ]);
    }
  });

  test.runIf(sandbox)(
    'with the token file among more shown files than a sandbox can hold one by one',
    async () => {
      await using root = await temporary();
      for (let index = 0; index <= 500; index += 1) writeFileSync(path.join(root.path, String(index)), '');
      const file = path.join(root.path, 'token');
      writeFileSync(file, secret, { mode: 0o600 });
      expect(await refusal(['--bind', root.path, '--token-file', file])).toEqual([
        2,
        expect.stringMatching(/token: a sandbox cannot show .* move the file to a directory of its own/),
      ]);
    },
  );
});

test.skipIf(withoutOpt)('what is hidden with a secret file and named by a variable is told', () => {
  using own = madeIn('/opt');
  const secrets = { secretFiles: [path.join(own.path, 'token')], dataDirectory: '/nowhere' };
  const spots = (place: string) =>
    blindSpots({ environment: { HF_HOME: place }, binds: [], added: [], apps: [], secrets });
  expect(spots(own.path)).toEqual([`HF_HOME=${own.path}`]);
  expect(spots('/opt')).toEqual([]);
});

test('the names of a file are those of the links to it, and its own', async () => {
  await using root = await temporary();
  mkdirSync(path.join(root.path, 'first'));
  symlinkSync('first', path.join(root.path, 'now'));
  symlinkSync('now/token', path.join(root.path, 'token'));
  const names = ['token', 'now', 'first/token'].map((each) => path.join(root.path, each));
  expect(namesOf(path.join(root.path, 'token'))).toEqual(names);
  symlinkSync('turn', path.join(root.path, 'turn'));
  expect(namesOf(path.join(root.path, 'turn')).at(-1)).toBe(path.join(root.path, 'turn'));
});

test.for([
  ['tokens.json', true],
  ['tokens.json.123.partial', true],
  ['.tokens.json.swp', true],
  ['#tokens.json#', true],
  ['tokens.json~', true],
  ['tokens.json-20261123.gz', true],
  ['tokens.jsonl', false],
  ['app.json', false],
] as const)('of the file of tokens %s is a part: %s', ([name, isPart]) => {
  expect(isOfSecret(name, 'tokens.json')).toBe(isPart);
});
