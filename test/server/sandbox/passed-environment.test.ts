import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { passedNames, passedVariables } from '../../../src/server/sandbox/passed-environment.js';

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

test("a job in a sandbox sees what the table lists, and nothing else of the server's environment", () => {
  expect(names({})).toEqual(always);
});

test('a proxy is for a job that may use the network', () => {
  expect(names({ network: true })).toEqual([...always, 'https_proxy']);
});

test('the home directory is for a job without a sandbox', () => {
  expect(names({ isSandboxed: false })).toEqual([...always, 'HOME', 'XDG_CACHE_HOME'].sort());
});

test('a name that says that it is a secret passes where the admin names it, and nowhere else', () => {
  expect(names({ added: ['HF_TOKEN', 'SSH_AUTH_SOCK', 'NOT_SET'] })).toEqual(
    [...always, 'HF_TOKEN', 'SSH_AUTH_SOCK'].sort(),
  );
});

test('docs/apps.md lists the whole table', () => {
  const page = readFileSync(new URL('../../../docs/apps.md', import.meta.url), 'utf8');
  for (const { names: row, purpose } of passedVariables) {
    expect(page).toContain(`| ${row.map((name) => `\`${name}\``).join(' ')} | ${purpose}`);
  }
});
