import { cpSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { blindSpots, checkSecrets } from '../../../src/server/sandbox/index.js';
import { hiddenPlaces } from '../../../src/server/sandbox/visible-files.js';
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

describe.runIf(sandbox && !withoutOpt)('a secret in a directory of its own below /opt', () => {
  test('A secret in a directory of its own below /opt stays hidden from a running job when it is replaced, under any name', async () => {
    using own = madeIn('/opt');
    const directory = own.path;
    const file = path.join(directory, 'token');
    const write = (name: string, text: string) => writeFileSync(name, `${text}\n`, { mode: 0o600 });
    write(file, secret);
    write(`${file}.1`, `${secret}-left-over`);
    await using server = await TestServer.start({
      runners: true,
      token: secret,
      apps: [apps.probe],
      app: 'probe',
      flags: ['--sandbox', 'bwrap', '--token-file', file],
    });
    const look = `ls ${directory}; cat ${file} ${file}.*; grep -rs ${secret} ${directory}; true`;
    const shell = `echo ready; while [ ! -e go ]; do sleep 0.02; done; exec 2>&1; ${look}`;
    const id = await server.api.running('infer', { ...least.infer, ...steps(`shell=${shell}`) }, 'ready');
    write(`${file}.new`, `${secret}-replaced`);
    renameSync(file, `${file}.2`);
    renameSync(`${file}.new`, file);
    writeFileSync(path.join(server.jobDirectory(id), 'Output', 'go'), '');
    const { log, view } = await server.api.ended(id);
    expect(view.status).toBe('done');
    expect(log).toContain('No such file');
    expect(log).not.toContain(secret);
    expect(log).not.toMatch(/^data: token/m);
  });

  test('A secret in a directory of its own below /opt is hidden from a worker even if it is created after the app was loaded', async () => {
    using own = madeIn('/opt');
    await using cli = await Cli.create();
    const tokens = path.join(own.path, 'tokens.json');
    const create = (name: string) => cli.run(['token', 'create', name, '--tokens', tokens]);
    await create('ana');
    await using server = await TestServer.start({
      runners: true,
      token: secret,
      apps: [apps.resident],
      app: 'resident',
      flags: ['--sandbox', 'bwrap', '--tokens', tokens],
    });
    expect((await server.api.run('infer', doing())).view).toMatchObject({ status: 'done', start: 'cold' });
    await create('ben');
    const { view, log } = await server.api.run('infer', doing(`read:${tokens}`));
    expect(view.start).toBe('warm');
    expect(log).toContain('ENOENT');
  });
});

describe.runIf(sandbox)('serve refuses to start', () => {
  /** What a start says that is refused: the same sentence as that of its check. */
  const refusal = async (flags: readonly string[]) => {
    await using cli = await Cli.create();
    const serve = ['serve', '--port', '0', '--data-dir', 'data', '--sandbox', 'bwrap', ...flags];
    const sentence = await cli.refusedStart(serve);
    const check = await cli.run([...serve, '--check']);
    expect(check.stdout).toContain(sentence.replace(/^.*?(?=\/)/, ''));
    return sentence;
  };

  test('A server refuses to start with a secret in a directory of --bind or --bind-rw, or a link to it', async () => {
    await using root = await temporary();
    const [shown, beside] = ['shown', 'beside'].map((name) => path.join(root.path, name)) as [string, string];
    mkdirSync(path.join(shown, 'below'), { recursive: true });
    mkdirSync(beside);
    writeFileSync(path.join(beside, 'token'), secret, { mode: 0o600 });
    symlinkSync(beside, path.join(shown, 'below', 'link'));
    symlinkSync(shown, path.join(beside, 'shown'));
    const through = path.join(beside, 'shown', 'below');
    const log = path.join(through, 'audit.jsonl');
    expect(await refusal(['--bind-rw', shown, '--audit-log', log])).toContain(
      `${log}: jobs must not see this file, and it is in ${shown}/below, which jobs see (--bind-rw: ${shown}); move it to a directory of its own, such as /etc/remote-app`,
    );
    const token = path.join(through, 'link', 'token');
    expect(await refusal(['--bind', shown, '--token-file', token])).toContain(
      `${token}: jobs must not see this file, and a link to it is in ${shown}/below, which jobs see (--bind: ${shown})`,
    );
  });

  test('A server refuses to start with a secret in the directory of an app', async () => {
    await using root = await temporary();
    const app = path.join(root.path, 'probe');
    cpSync(apps.probe, app, { recursive: true });
    const token = path.join(app, 'token');
    writeFileSync(token, secret, { mode: 0o600 });
    expect(await refusal(['--apps', app, '--token-file', token])).toContain(
      `${token}: jobs must not see this file, and it is in ${app}, which jobs see (an app: ${app})`,
    );
  });
});

describe('a secret in a directory of the system', () => {
  const check = (file: string, shown: readonly string[] = [], engine: readonly string[] = []) =>
    checkSecrets(
      { secretFiles: [file], dataDirectory: '/nowhere', binds: [], environment: process.env },
      shown,
      engine,
    );

  test('A secret in a directory of the system is fine in a directory of its own, which is hidden as a whole', () => {
    for (const file of ['/etc/remote-app/token', '/opt/lab/secrets/token', '/srv/token']) check(file);
    check('/opt/lab/secrets/token', ['/opt/lab/app']);
  });

  test('A secret in a directory of the system is refused where jobs see the directory, or need something in it', () => {
    expect(() => check('/etc/token')).toThrow(/it is in \/etc, which jobs see as a part of the system/);
    expect(() => check('/usr/share/lab/token')).toThrow(/part of the system/);
    expect(() => check('/opt/lab/token', ['/opt/lab/app'])).toThrow(
      'it is in /opt/lab, where jobs need /opt/lab/app (an app)',
    );
  });

  test.skipIf(withoutOpt)('A secret in a directory of the system is refused beside the engine', () => {
    using own = madeIn('/opt');
    const engine = path.join(own.path, 'engine');
    writeFileSync(engine, '#!/bin/sh\n', { mode: 0o755 });
    expect(() => check(path.join(own.path, 'token'), [], [engine])).toThrow(`(the engine: ${own.path})`);
  });
});

test.skipIf(withoutOpt)('A variable that names a directory hidden with a secret file is reported', () => {
  using own = madeIn('/opt');
  const secrets = { secretFiles: [path.join(own.path, 'token')], dataDirectory: '/nowhere' };
  const spots = (place: string) =>
    blindSpots({ environment: { HF_HOME: place }, binds: [], added: [], apps: [], secrets });
  expect(spots(own.path)).toEqual([`HF_HOME=${own.path}`]);
  expect(spots('/opt')).toEqual([]);
});

test('Files that jobs must not see are hidden under their real names and under every link that jobs see', async () => {
  await using root = await temporary();
  const [data, shown, link] = ['shown/data', 'shown', 'link'].map((name) => path.join(root.path, name)) as [
    string,
    string,
    string,
  ];
  mkdirSync(data, { recursive: true });
  symlinkSync('shown', link);
  // What is in a hidden directory is hidden with it.
  const secrets = [path.join(shown, 'secret'), path.join(shown, 'secret/deep'), path.join(data, 'own')];
  const rules = { secretFiles: secrets.map((each) => path.join(each, 'token')), dataDirectory: data };
  expect(hiddenPlaces(rules, [link, shown]).toSorted()).toEqual(
    [link, shown].flatMap((each) => ['data', 'secret'].map((name) => path.join(each, name))),
  );
});
