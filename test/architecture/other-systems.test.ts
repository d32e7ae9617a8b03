import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { leftOut } from '../support/other-systems.js';
import { importsOf } from './imports.js';

/** What works on Linux alone: modules, files, and words of a source. Laptops with macOS and Windows are clients. */
const linuxOnly = {
  paths: /^(server|runner|cli\/serve)\//,
  words:
    /\/proc\b|\/sys\/|\bO_PATH\b|\bnvidia-smi\b|\bflock\b|\bmkfifo\b|\bcgroup|\bprocess\.kill\b|-process\.pid\b/,
};

const src = fileURLToPath(new URL('../../src/', import.meta.url));
const sources = new Map(
  readdirSync(src, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => [file.replaceAll(path.sep, '/'), readFileSync(path.join(src, file), 'utf8')]),
);

/** The files of the client itself. */
const isClient = (file: string): boolean =>
  /^(client|cli|commands)\//.test(file) && !/^(cli\/serve\/|commands\/(serve|check)\.ts$)/.test(file);

const targetsOf = (file: string, text: string): string[] =>
  importsOf(file, text).flatMap(({ specifier }) =>
    specifier?.startsWith('.')
      ? [path.posix.join(path.posix.dirname(file), specifier).replace(/\.js$/, '.ts')]
      : [],
  );

/** What the client needs of Linux, also through other files, as `file: why`. */
function needsOfLinux(texts: ReadonlyMap<string, string>): string[] {
  const reached = new Set([...texts.keys()].filter(isClient));
  const found: string[] = [];
  for (const file of reached) {
    const text = texts.get(file) ?? '';
    const word = isClient(file) ? linuxOnly.words.exec(text)?.[0] : undefined;
    if (word !== undefined) found.push(`${file}: mentions ${word}`);
    for (const target of targetsOf(file, text)) {
      if (linuxOnly.paths.test(target)) found.push(`${file}: imports ${target}`);
      else reached.add(target);
    }
  }
  return found;
}

test('Nothing that the client imports, directly or indirectly, requires Linux', () => {
  expect([...sources.keys()].filter(isClient).length).toBeGreaterThan(80);
  expect(needsOfLinux(sources)).toEqual([]);
});

test('A dependency on Linux is found, even through other files or in text', () => {
  const planted = new Map([
    ['client/a.ts', "import '../files/b.js';"],
    ['files/b.ts', "const c = () => import('../server/c.js');"],
    ['cli/d.ts', "readFileSync('/proc/self/status');"],
    ['cli/e.ts', "import type { X } from './serve/x.js';"],
    ['cli/serve/x.ts', "readFileSync('/proc/self/status');"],
    ['commands/serve.ts', "import '../cli/serve/x.js';"],
  ]);
  expect(needsOfLinux(planted)).toEqual([
    'cli/d.ts: mentions /proc',
    'cli/e.ts: imports cli/serve/x.ts',
    'files/b.ts: imports server/c.ts',
  ]);
});

const root = path.join(src, '..');

/** Whether a file of the tests imports another one, directly or not. */
function reaches(file: string, wanted: string, seen = new Set<string>()): boolean {
  if (file === wanted) return true;
  if (seen.has(file) || !file.startsWith('test/') || !existsSync(path.join(root, file))) return false;
  seen.add(file);
  return targetsOf(file, readFileSync(path.join(root, file), 'utf8')).some((each) =>
    reaches(each, wanted, seen),
  );
}

test('On Windows and macOS, the client tests that start a server are excluded by name', () => {
  const [, directories = ''] =
    / npm test -- (.*)/.exec(readFileSync(path.join(root, '.github/workflows/ci.yml'), 'utf8')) ?? [];
  const tests = directories.split(' ').flatMap((directory) =>
    readdirSync(path.join(root, directory), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.test.ts'))
      .map((file) => path.posix.join(directory, file)),
  );
  expect(tests.length).toBeGreaterThan(150);
  const isOfServer = (file: string) =>
    file.startsWith('test/cli/serve/') || reaches(file, 'test/support/server.ts');
  expect(tests.filter(isOfServer).sort()).toEqual(leftOut[0]?.files);
  expect(leftOut.flatMap(({ files }) => files).filter((file) => !tests.includes(file))).toEqual([]);
});
