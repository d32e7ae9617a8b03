import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { aroundEntries, circle, packageRow, usedEdges, violations } from './check.js';
import { modules } from './edges.js';
import { unusedExports } from './exports.js';
import { importsOf } from './imports.js';
import { packages } from './packages.js';

const src = fileURLToPath(new URL('../../src/', import.meta.url));
const names = Object.keys(modules);

const filesIn = (folder: string, ending: string): Map<string, string> =>
  new Map(
    readdirSync(path.join(src, folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith(ending))
      .map((file) => path.join(folder, file))
      .map((file) => [file, readFileSync(path.join(src, file), 'utf8')]),
  );

const sources = filesIn('.', '.ts');

/**
 * Folders whose files are imported by name: oclif loads those of `start` and `commands`, and the others hold what the modules
 * inside them share.
 */
const withoutEntry = ['start', 'commands', 'commands/token', 'client', 'server'];

/** Values that no file of src/ imports. A test that goes through the module's entry is better than a line here. */
const onlyForTests: readonly string[] = [
  'client/case-names.ts: typedParts',
  'client/case/complete-result.ts: makeRecord',
  'client/result/fetch-archive.ts: PrivateDirectory',
  'runner/log.ts: LineSplitter',
  'server/devices/nvidia-smi.ts: parseRows',
  'server/executors/slurm/queue.ts: parseRows',
  'server/executors/slurm/run-follower.ts: causeBySlurm',
  'server/executors/slurm/slurm-executor.ts: SlurmExecutor',
  'server/executors/slurm/slurm.ts: runSlurm',
  'server/executors/slurm/submission.ts: minutesFor',
  'server/http/http-server.ts: connectionsFor',
  'server/hub/update.ts: downloadBlob',
  'server/sandbox/passed-environment.ts: passedVariables',
  // oclif finds it by its name in package.json.
  'start/help.ts: GroupedHelp',
];

/** A file of a module: the module itself if it is a file, otherwise a new file of that folder. */
const fileIn = (module: string, name = 'planted.ts'): string =>
  module.endsWith('.ts') ? module : `${module}/${name}`;

/** The specifier by which one file imports another. */
const specifier = (from: string, to: string): string =>
  `./${path.posix.relative(path.posix.dirname(from), to).replace(/\.ts$/, '.js')}`;

/** Files with one planted import, on the second line of the first. */
function planted(from: string, to: string): Map<string, string> {
  const [file, target] = [fileIn(from), fileIn(to, 'target.ts')];
  const text = `// Planted.\nimport { x } from '${specifier(file, target)}';\n`;
  return new Map([
    [target, 'export const x = 1;\n'],
    [file, text],
  ]);
}

describe('the sources', () => {
  test('The sources import nothing that the table forbids', () => {
    expect(violations(sources)).toEqual([]);
  });

  test('The sources enter a module only through its entry', () => {
    expect(aroundEntries(sources)).toEqual([]);
  });

  test('The sources have an entry in each module', () => {
    expect(names.filter((name) => !name.endsWith('.ts') && !sources.has(`${name}/index.ts`))).toEqual(
      withoutEntry,
    );
  });

  test('The sources export no value that only a test imports', () => {
    expect(unusedExports(sources, filesIn('../tools', '.mjs'))).toEqual(onlyForTests);
  });

  test('The sources have no import cycles', () => {
    expect(circle(sources)).toBeNull();
  });

  test('The sources use everything that the table allows, so an unused edge must be removed', () => {
    const used = usedEdges(sources);
    const edges = names.flatMap((from) => modules[from]?.imports.map((to) => `${from} -> ${to}`) ?? []);
    const uses = Object.entries(packages)
      .filter(([name]) => name !== 'node:*')
      .flatMap(([name, rule]) => rule.modules.map((module) => `${module}: ${name}`));
    expect([...edges, ...uses].filter((each) => !used.has(each))).toEqual([]);
  });
});

test('The package of volumes imports only its own files and its dependencies', () => {
  const root = fileURLToPath(new URL('../../packages/volumes/', import.meta.url));
  const { dependencies } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
  const files = readdirSync(path.join(root, 'src'), { recursive: true, encoding: 'utf8' });
  const outside = files
    .filter((file) => file.endsWith('.ts'))
    .flatMap((file) => {
      const specifiers = importsOf(file, readFileSync(path.join(root, 'src', file), 'utf8'));
      return specifiers.map(({ specifier }) => ({ file, specifier: specifier ?? 'a variable' }));
    })
    .filter(({ file, specifier }) =>
      specifier.startsWith('.')
        ? path.posix.join(path.posix.dirname(file), specifier).startsWith('..')
        : !['node:', ...Object.keys(dependencies)].some((start) => specifier.startsWith(start)),
    );
  expect(outside).toEqual([]);
});

describe('the table', () => {
  test('Each module imports only modules further down the table', () => {
    for (const [index, from] of names.entries()) {
      for (const to of modules[from]?.imports ?? []) {
        expect(names.indexOf(to), `${from} -> ${to}`).toBeGreaterThan(index);
      }
    }
  });

  test.each([
    ['contract', 'files'],
    ['files', 'server/jobs'],
    ['files', 'client'],
    ['archive', 'server/submissions'],
    ['runner', 'server/executors'],
    ['client/connection', 'client/result'],
    ['client/case', 'server'],
    ['client', 'cli/command'],
    ['cli/command', 'server/serve.ts'],
    ['server/jobs', 'server/routes'],
    ['server/jobs', 'cli/command'],
    ['server/data-directory', 'server/jobs'],
    ['server/serve.ts', 'commands'],
    ['start', 'server/serve.ts'],
  ])('The table keeps %s from importing %s', (from, to) => {
    expect(violations(planted(from, to))).toHaveLength(1);
  });

  test.each([
    ['node:path', ['contract']],
    ['koa', ['server/jobs', 'server/executors', 'server/devices', 'client', 'client/connection', 'runner']],
    [
      '@koa/router',
      ['server/jobs', 'server/executors', 'server/devices', 'client/connection', 'cli/command'],
    ],
    ['@oclif/core', ['client', 'client/case', 'client/submit', 'server/serve.ts', 'contract']],
    ['undici', ['client/submit', 'client/logs', 'cli/command', 'server/jobs', 'contract']],
    ['node:http', ['server/jobs', 'server/executors', 'server/devices', 'client/connection']],
    ['left-pad', names],
  ])('The table keeps %s from %j', (name, kept) => {
    for (const module of kept) {
      expect(violations(new Map([[fileIn(module), `import '${name}';`]])), module).toHaveLength(1);
    }
  });
});

describe('planted imports', () => {
  test.each(names)(
    'An import from %s to each module that it may not import is reported with its file, its line and the reason',
    (from) => {
      const forbidden = names.filter((to) => to !== from && !modules[from]?.imports.includes(to));
      for (const to of forbidden) {
        const [file, target] = [fileIn(from), fileIn(to, 'target.ts')];
        expect(violations(planted(from, to))).toEqual([
          `src/${file}:2 imports ${specifier(file, target)}: ${modules[from]?.reason}`,
        ]);
      }
    },
  );

  test.each(Object.entries(packages))(
    'An import of %s in each module that may not use it is reported with its file, its line and the reason',
    (name, rule) => {
      const module = `${name === 'node:*' ? 'node:fs' : name}/promises`;
      for (const file of names
        .filter((module) => !rule.modules.includes(module))
        .map((module) => fileIn(module))) {
        expect(violations(new Map([[file, `\n\nimport '${module}';`]]))).toEqual([
          `src/${file}:3 imports ${module}: ${rule.reason}`,
        ]);
      }
    },
  );

  test('A module that is missing from the table is reported', () => {
    expect(violations(new Map([['attic/old.ts', '']]))).toEqual([
      'src/attic/old.ts lies in no module of the table',
    ]);
  });

  test('An import that bypasses the entry of another module is reported, and imports within a module are not', () => {
    const sources = new Map([
      ['archive/index.ts', "export { pack } from './pack.js';"],
      ['archive/pack.ts', 'export const pack = 1;'],
      ['archive/zip/writer.ts', "import '../pack.js';"],
      ['files/odd.ts', "import '../archive/index.js';\nimport '../archive/pack.js';"],
    ]);
    expect(aroundEntries(sources)).toEqual([
      'src/files/odd.ts:2 imports archive/pack.ts: the entry is archive/index.ts',
    ]);
  });

  test('An import from outside src/, or of a name known only at run time, is reported', () => {
    const text = "import '../../package.json';\nawait import(place);";
    expect(violations(new Map([['files/odd.ts', text]]))).toEqual([
      'src/files/odd.ts:1 imports ../../package.json: There is no such file in src/.',
      'src/files/odd.ts:2 imports a variable: What is imported must be written out, or nobody can check it.',
    ]);
  });

  test('A value that only its own file uses, or that an entry only re-exports, is listed', () => {
    const sources = new Map([
      ['archive/index.ts', "export { pack, walk as walkFiles } from './pack.js';\nexport * from './all.js';"],
      ['archive/all.ts', 'export const used = 1, unused = 2;'],
      [
        'archive/pack.ts',
        'export const pack = 1, walk = 2, mine = 3, listed = 4;\nexport interface Packed {}',
      ],
      ['files/odd.ts', "import { used, walkFiles } from '../archive/index.js';"],
    ]);
    const tools = new Map([['../tools/list.mjs', "import { listed } from '../dist/archive/pack.js';"]]);
    expect(unusedExports(sources, tools)).toEqual([
      'archive/all.ts: unused',
      'archive/index.ts: pack',
      'archive/pack.ts: mine',
      'archive/pack.ts: pack',
    ]);
  });

  test('A cycle of files is reported, even if it consists only of types', () => {
    const circular = new Map([
      ['files/a.ts', "import type { B } from './b.js';"],
      ['files/b.ts', "export const c = () => import('./c.js');"],
      ['files/c.ts', "export * from './a.js';"],
      ['files/d.ts', "import './a.js';"],
    ]);
    expect(circle(circular)).toEqual(['files/a.ts', 'files/b.ts', 'files/c.ts', 'files/a.ts']);
  });
});

test('Every kind of import is found, and text that only looks like one is not', () => {
  const text = `import a from './a.js';
import type { B } from './b.js';
import './c.js';
import d = require('./d.js');
export { e } from './e.js';
export * from './f.js';
const g = await import('./g.js');
let h: import('./h.js').H;
const i = require('./i.js');
// import './no.js';
const j = "import './no.js'";
import { type K,
  l } from './k.js';
`;
  expect(
    importsOf('x.ts', text)
      .map(({ specifier, line }) => `${line} ${specifier}`)
      .sort(),
  ).toEqual(
    [
      '1 ./a.js',
      '2 ./b.js',
      '3 ./c.js',
      '4 ./d.js',
      '5 ./e.js',
      '6 ./f.js',
      '7 ./g.js',
      '8 ./h.js',
      '9 ./i.js',
      '13 ./k.js',
    ].sort(),
  );
  expect(() => importsOf('x.ts', 'import from from;;(')).toThrow('x.ts');
});

test('A subpath of a package is subject to the rule of the package', () => {
  expect(['zod/mini', '@oclif/core/execute', 'node:fs/promises', 'node:http'].map(packageRow)).toEqual([
    'zod',
    '@oclif/core',
    'node:*',
    'node:http',
  ]);
});
