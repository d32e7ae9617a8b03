import { parseSync, Visitor } from 'oxc-parser';

/** What one place in a file imports. */
export interface Import {
  /** As it is written: `./job.js`, `node:fs`, `koa`. Null for `import(variable)`, which cannot be followed. */
  readonly specifier: string | null;
  readonly line: number;
}

/** Anything that may stand where an import names what it imports. */
type Source = { readonly type: string; readonly value?: unknown; readonly start: number } | null | undefined;

/** What each text imports: the checks all ask for the same files. */
const known = new Map<string, readonly Import[]>();

/**
 * Everything that a TypeScript file imports, found by a parser: statements, types, re-exports, `import()` and
 * `require()`.
 * @throws if it is not TypeScript
 */
export function importsOf(file: string, text: string): readonly Import[] {
  const found = known.get(text) ?? parsedImports(file, text);
  known.set(text, found);
  return found;
}

function parsedImports(file: string, text: string): readonly Import[] {
  const { program, errors } = parseSync(file, text);
  if (errors[0]) throw new Error(`${file}: ${errors[0].message}`);
  const imports: Import[] = [];
  const note = (source: Source) => {
    if (!source) return;
    const specifier = source.type === 'Literal' && typeof source.value === 'string' ? source.value : null;
    imports.push({ specifier, line: text.slice(0, source.start).split('\n').length });
  };
  new Visitor({
    ImportDeclaration: ({ source }) => note(source),
    ExportNamedDeclaration: ({ source }) => note(source),
    ExportAllDeclaration: ({ source }) => note(source),
    ImportExpression: ({ source }) => note(source),
    TSImportType: ({ source }) => note(source),
    TSExternalModuleReference: ({ expression }) => note(expression),
    CallExpression: ({ callee, arguments: [first] }) => {
      if (callee.type === 'Identifier' && callee.name === 'require') note(first);
    },
  }).visit(program);
  return imports;
}
