import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { passedNames, passedVariables } from '../../../src/server/sandbox/passed-environment.js';
import { list } from '../../support/list.mjs';

const environment = {
  PATH: '/usr/bin',
  LC_TIME: 'de_DE.UTF-8',
  CUDA_HOME: '/usr/local/cuda',
  PYTHONPATH: '/srv/python',
  KONFAI_HOME: '/srv/konfai',
  HF_HOME: '/srv/models',
  HF_TOKEN: 'secret',
  HOME: '/home/lab',
  XDG_CACHE_HOME: '/home/lab/.cache',
  https_proxy: 'http://user:secret@proxy:3128',
  DATABASE_PASSWORD: 'secret',
  SSH_AUTH_SOCK: '/run/agent',
  PATHOLOGY: 'a name that begins like another',
};

const names = (rules: Partial<Parameters<typeof passedNames>[1]>) =>
  passedNames(environment, { isSandboxed: true, network: false, added: [], ...rules });

const always = ['CUDA_HOME', 'HF_HOME', 'KONFAI_HOME', 'LC_TIME', 'PATH', 'PYTHONPATH'];

test("A job in a sandbox sees only the server's variables listed in the table", () => {
  expect(names({})).toEqual(always);
});

test('Proxy variables are passed only to a job that may use the network', () => {
  expect(names({ network: true })).toEqual([...always, 'https_proxy']);
});

test('The home directory is passed only to a job without a sandbox', () => {
  expect(names({ isSandboxed: false })).toEqual([...always, 'HOME', 'XDG_CACHE_HOME'].sort());
});

test('A variable whose name suggests a secret is passed on only if the admin names it', () => {
  expect(names({ added: ['HF_TOKEN', 'SSH_AUTH_SOCK', 'NOT_SET'] })).toEqual(
    [...always, 'HF_TOKEN', 'SSH_AUTH_SOCK'].sort(),
  );
});

const passes = (name: string, value = 'x', added: string[] = []): boolean =>
  passedNames({ [name]: value }, { isSandboxed: true, network: true, added }).includes(name);

const secrets = list`HF_PASS HF_PWD HF_PAT HF_PAT_2 CUDA_AUTH KONFAI_OAUTH HF_AUTHORIZATION MONAI_BEARER
  HF_COOKIE HF_SESSION NVIDIA_CREDS hf_pat PYTHON_AUTH_HEADER`;
test.for(secrets)(
  'A secret under a different kind of name is passed on only if the admin names it: %s',
  (name) => {
    expect([passes(name), passes(name, 'x', [name])]).toEqual([false, true]);
  },
);

const harmless = list`PATH PYTHONPATH CUDA_PATH HF_PATH OMP_NUM_THREADS CUDA_COMPAT_PATH TORCH_COMPASS`;
test.for(harmless)('A name that only looks like a secret is passed on: %s', (name) => {
  expect(passes(name)).toBe(true);
});

test('A URL with a password is passed on only if the admin names it, unless it is that of a proxy', () => {
  for (const value of [
    'https://lab:secret@hub.example',
    'redis://:secret@cache:6379/0',
    'see ftp://lab@site:secret@files.example/x',
  ]) {
    const name = 'HF_ENDPOINT';
    expect([value, passes(name, value), passes(name, value, [name])]).toEqual([value, false, true]);
    expect(passes('https_proxy', value)).toBe(true);
  }
  for (const value of [
    'https://hub.example',
    'https://hub.example:8443/a@b:c@d',
    'ssh://git@hub.example',
    '/a:b@c',
  ]) {
    expect([value, passes('HF_ENDPOINT', value)]).toEqual([value, true]);
  }
});

test('The sandbox documentation contains the whole table', () => {
  const page = readFileSync(new URL('../../../docs/sandbox.md', import.meta.url), 'utf8');
  for (const { names: row, purpose } of passedVariables) {
    expect(page).toContain(`| ${row.map((name) => `\`${name}\``).join(' ')} | ${purpose}`);
  }
});
