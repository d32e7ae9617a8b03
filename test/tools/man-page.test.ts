import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { exitCodes } from '../../src/contract/errors.js';

const read = (file: string): string =>
  readFileSync(fileURLToPath(new URL(`../../${file}`, import.meta.url)), 'utf8');

interface Manifest {
  readonly commands: Readonly<
    Record<
      string,
      { readonly flags: Readonly<Record<string, { readonly hidden?: boolean; readonly env?: string }>> }
    >
  >;
}

const source = read('docs/remote-app.1');
/** The page as it is read, near enough. */
const page = source
  .replace(/\\f[BIR]/g, '')
  .replaceAll('\\-', '-')
  .replaceAll('\\(aq', "'");
const { commands } = JSON.parse(read('oclif.manifest.json')) as Manifest;

test('The manual page has every command, flag, variable and exit code, and no hidden ones', () => {
  for (const [name, { flags }] of Object.entries(commands)) {
    if (name !== 'help') expect(page).toMatch(new RegExp(`^\\.SS ${name.replaceAll(':', ' ')}( |$)`, 'm'));
    for (const [flag, { hidden, env }] of Object.entries(flags)) {
      if (name === 'help' || hidden) continue;
      expect(page).toMatch(new RegExp(`--(\\[no-\\])?${flag}\\b`));
      if (env) expect(page).toMatch(new RegExp(`^${env}$`, 'm'));
    }
  }
  for (const code of Object.values(exitCodes)) expect(page).toMatch(new RegExp(`^\\.TP\n${code}$`, 'm'));
  expect(page).not.toContain('--values');
});

test('No text of the manual page is interpreted as a roff request', () => {
  const requests = new Set(source.split('\n').flatMap((line) => /^[.'](\S*)/.exec(line)?.[1] ?? []));
  expect([...requests].sort()).toEqual(['PP', 'SH', 'SS', 'TH', 'TP', '\\"', 'ad', 'br', 'fi', 'nf', 'nh']);
  // Whatever follows a backslash is an escape that the page means.
  expect(source.replace(/^\.\\"/m, '').match(/\\(?!f[BIR]|-|\(aq|\(ga|\(ha|\(ti|e|&\.)/)).toBe(null);
});
