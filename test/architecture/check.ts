import path from 'node:path';
import { modules, pastEntries } from './edges.js';
import { importsOf } from './imports.js';
import { packages } from './packages.js';

/** Texts of source files, by their paths under src/. */
export type Sources = ReadonlyMap<string, string>;

/** The module of a file, whether the table has it or not. */
const moduleOf = (file: string): string => (Object.hasOwn(modules, file) ? file : path.posix.dirname(file));

const targetOf = (file: string, specifier: string): string =>
  path.posix.join(path.posix.dirname(file), specifier).replace(/\.js$/, '.ts');

/** The row of the table of packages for a specifier: `zod` for `zod/mini`, `node:*` for a module of Node without a row. */
export function packageRow(specifier: string): string {
  const rows = Object.keys(packages).filter((name) => `${specifier}/`.startsWith(`${name}/`));
  const [longest] = rows.sort((one, other) => other.length - one.length);
  return longest ?? (specifier.startsWith('node:') ? 'node:*' : specifier);
}

/** Why a file may not import this; null if it may. */
function objection(sources: Sources, file: string, specifier: string | null): string | null {
  const from = moduleOf(file);
  if (specifier === null) return 'What is imported must be written out, or nobody can check it.';
  if (!specifier.startsWith('.')) {
    const rule = packages[packageRow(specifier)];
    if (rule === undefined) return 'This package is not in the table.';
    return rule.modules.includes(from) ? null : rule.reason;
  }
  const target = targetOf(file, specifier);
  if (!sources.has(target)) return 'There is no such file in src/.';
  const to = moduleOf(target);
  const module = modules[from];
  return module === undefined || from === to || module.imports.includes(to) ? null : module.reason;
}

/** What the table forbids: the file, the line, what it imports there, and why it must not. */
export function violations(sources: Sources): string[] {
  return [...sources].flatMap(([file, text]) => {
    if (!Object.hasOwn(modules, moduleOf(file))) return [`src/${file} lies in no module of the table`];
    return importsOf(file, text).flatMap(({ specifier, line }) => {
      const reason = objection(sources, file, specifier);
      return reason === null ? [] : [`src/${file}:${line} imports ${specifier ?? 'a variable'}: ${reason}`];
    });
  });
}

/** Every edge between modules that is used, as `cli -> client`, and every use of a package, as `pack: archiver`. */
export function usedEdges(sources: Sources): Set<string> {
  const used = new Set<string>();
  for (const [file, text] of sources) {
    for (const { specifier } of importsOf(file, text)) {
      if (specifier === null) continue;
      const from = moduleOf(file);
      if (specifier.startsWith('.')) used.add(`${from} -> ${moduleOf(targetOf(file, specifier))}`);
      else used.add(`${from}: ${packageRow(specifier)}`);
    }
  }
  return used;
}

/** Files that import each other in a circle, also by types alone; null if there are none. */
export function circle(sources: Sources): string[] | null {
  const left = new Map(
    [...sources].map(([file, text]) => [
      file,
      importsOf(file, text).flatMap(({ specifier }) =>
        specifier?.startsWith('.') ? [targetOf(file, specifier)] : [],
      ),
    ]),
  );
  // A file that imports none of those that are left is in no circle.
  for (let before = -1; before !== left.size; ) {
    before = left.size;
    for (const [file, targets] of left) if (!targets.some((each) => left.has(each))) left.delete(file);
  }
  const way: string[] = [];
  let next = left.keys().next().value;
  while (next !== undefined && !way.includes(next)) {
    way.push(next);
    next = left.get(next)?.find((each) => left.has(each));
  }
  return next === undefined ? null : [...way.slice(way.indexOf(next)), next];
}

/** The folder with an entry that a file lies in or below; null where there is none. */
function folderWithEntry(sources: Sources, file: string): string | null {
  for (let folder = path.posix.dirname(file); folder !== '.'; folder = path.posix.dirname(folder)) {
    if (sources.has(`${folder}/index.ts`)) return folder;
  }
  return null;
}

/** Imports that go around the entry of another module, where they must not: the file, the line, and the entry. */
export function aroundEntries(sources: Sources): string[] {
  return [...sources].flatMap(([file, text]) =>
    importsOf(file, text).flatMap(({ specifier, line }) => {
      if (!specifier?.startsWith('.')) return [];
      const target = targetOf(file, specifier);
      const folder = folderWithEntry(sources, target);
      const isEntry = folder === null || target === `${folder}/index.ts`;
      if (isEntry || pastEntries.includes(moduleOf(file))) return [];
      if (`${path.posix.dirname(file)}/`.startsWith(`${folder}/`)) return [];
      return [`src/${file}:${line} imports ${target}: the entry is ${folder}/index.ts`];
    }),
  );
}
