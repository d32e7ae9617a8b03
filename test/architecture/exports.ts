import path from 'node:path';
import { parseSync } from 'oxc-parser';
import type { Sources } from './check.js';

/**
 * Values that a file of src/ exports and no other file imports, as `archive/pack.ts: pack`. A name that an entry passes on
 * is in use if somebody imports it from the entry. Types don't count: a signature may need a name for them.
 * `import()` counts as an import of every name, because its caller may hand the module on.
 * @param tools further files that import from `dist/`, by their paths from src/
 */
export function unusedExports(sources: Sources, tools: Sources = new Map()): string[] {
  const unused = new Set<string>();
  /** What an entry's name stands for in the file behind it. */
  const passedOn = new Map<string, string>();
  /** The files of which an entry passes everything on. */
  const behind = new Map<string, string[]>();
  const uses: string[] = [];
  for (const [file, text] of [...sources, ...tools]) {
    const { module } = parseSync(file, text);
    const exported = (target: string, name: string | null | undefined): string => {
      const from = path.posix.join(path.posix.dirname(file), target).replace(/^\.\.\/dist\//, '');
      return `${from.replace(/\.js$/, '.ts')}: ${name}`;
    };
    for (const each of module.staticExports.flatMap(({ entries }) => entries)) {
      const name = `${file}: ${each.exportName.name}`;
      if (sources.has(file) && !each.isType && each.exportName.name !== null) unused.add(name);
      if (!each.moduleRequest) continue;
      const source = exported(each.moduleRequest.value, each.importName.name);
      if (each.exportName.name !== null) passedOn.set(name, source);
      else behind.set(file, [...(behind.get(file) ?? []), source.replace(/: .*/, '')]);
    }
    for (const { moduleRequest, entries } of module.staticImports) {
      for (const { importName } of entries) uses.push(exported(moduleRequest.value, importName.name ?? '*'));
    }
    for (const { moduleRequest } of module.dynamicImports) {
      uses.push(exported(text.slice(moduleRequest.start + 1, moduleRequest.end - 1), '*'));
    }
  }
  const use = (name: string | undefined): void => {
    if (name === undefined) return;
    if (name.endsWith(': *')) for (const each of unused) if (each.startsWith(name.slice(0, -1))) use(each);
    unused.delete(name);
    use(passedOn.get(name));
    const [file = '', value] = name.split(': ');
    for (const each of behind.get(file) ?? []) use(`${each}: ${value}`);
  };
  for (const name of uses) use(name);
  return [...unused].sort();
}
