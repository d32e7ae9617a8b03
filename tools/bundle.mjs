/**
 * Bundles the modules that `tsc` wrote, with the packages that they use, into dist/bundle: a process that reads three files starts
 * several times faster than one that reads eight hundred. Usage: node tools/bundle.mjs [DIRECTORY]
 */
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'rolldown';
import { checkGroups, checkLoadedWith, splittingGroups } from './bundle-groups.mjs';
import { rewriting } from './rewrites.mjs';
import { standIns } from './stand-ins.mjs';

const root = path.resolve(process.argv[2] ?? fileURLToPath(new URL('..', import.meta.url)));
const modules = path.join(root, 'dist');
const tools = fileURLToPath(new URL('.', import.meta.url));
const out = path.join(modules, 'bundle');

/** The name of the file of a stand-in: `stand-in-4-node-http.cjs`. A module may have several, for different importers. */
const fileOf = (standIn) =>
  standIn.file ?? `stand-in-${standIns.indexOf(standIn)}-${standIn.of.replaceAll(/[^a-z0-9]+/g, '-')}.cjs`;

/** The plugin that replaces modules by their stand-ins. */
const standingIn = {
  name: 'stand-ins',
  resolveId(id, importer = '') {
    const found = standIns.find(({ of, within }) => of === id && (within?.test(importer) ?? true));
    // A stand-in may import the module that it replaces.
    if (!found || path.basename(importer) === fileOf(found)) return;
    // In the directory of the importer, from where the imports of the stand-in are resolved.
    return path.join(found.file ? tools : path.dirname(importer), fileOf(found));
  },
  load(id) {
    const found = standIns.find((each) => path.basename(id) === fileOf(each));
    if (found && !found.file) return { code: found.code, moduleType: 'js' };
  },
};

/** Makes the bundle of these programs; resolves with the files that it has and the modules in each. */
async function bundle(programs, { entryFileNames = '[name].js', groups, define = {} } = {}) {
  const { output } = await build({
    cwd: root,
    input: Object.fromEntries(programs.map((name) => [name, path.join(modules, `${name}.js`)])),
    platform: 'node',
    // unzipper can also read from a cloud storage, if this package is installed.
    external: ['@aws-sdk/client-s3'],
    plugins: [standingIn, ...rewriting],
    transform: { define },
    // A package of koa makes functions from its own text; and modules that are loaded later may be in a group.
    checks: { eval: false, ineffectiveDynamicImport: false },
    preserveEntrySignatures: 'allow-extension',
    output: {
      dir: out,
      // In the oldest supported version of Node, V8's compiled code can be saved only for CommonJS.
      format: 'cjs',
      // Text of one byte a character is read four times as fast.
      charset: 'ascii',
      // The licences are in a file of their own.
      comments: { legal: false },
      entryFileNames,
      chunkFileNames: 'chunks/[name]-[hash].js',
      // Names are kept, because stacks and messages show them.
      minify: { mangle: false, compress: true, codegen: { removeWhitespace: true } },
      ...(groups ? { codeSplitting: { groups } } : {}),
    },
  });
  return output;
}

/** The directories of the packages of these modules. */
const packagesOf = (modules) =>
  new Set(modules.map((id) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(id)?.[0]).filter(Boolean));

/** Packages that oclif uses as well. */
const ofOclif = ['tinyglobby', 'typescript'];

/** Checks that no command reads a package of ours that it does not use: one import can add one to every start. */
function checkStart(main, chunks) {
  const read = new Set([main]);
  for (const { imports } of read) {
    for (const chunk of chunks) if (imports.includes(chunk.fileName)) read.add(chunk);
  }
  const { dependencies, devDependencies } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
  const ours = Object.keys({ ...dependencies, ...devDependencies })
    .filter((name) => !name.startsWith('@oclif/') && !ofOclif.includes(name))
    .map((name) => path.join(root, 'node_modules', name));
  const found = packagesOf([...read].flatMap(({ moduleIds }) => moduleIds));
  const wrong = ours.filter((directory) => found.has(directory)).map((each) => path.basename(each));
  if (wrong.length > 0) {
    throw new Error(
      `Every command would read ${wrong.join(', ')} when it starts: import lazily what uses it`,
    );
  }
}

/** The packages of these modules, each with its licence: the bundle has copies of them. */
function licences(modules) {
  return [...packagesOf(modules)].sort().map((directory) => {
    const { name, version, license } = JSON.parse(readFileSync(path.join(directory, 'package.json'), 'utf8'));
    const file = readdirSync(directory).find((each) => /^licen[cs]e/i.test(each));
    const text = file ? readFileSync(path.join(directory, file), 'utf8') : `Licence: ${license}`;
    return `${name} ${version}\n\n${text.trim()}\n`;
  });
}

rmSync(out, { recursive: true, force: true });
const [main, ...chunks] = await bundle(['start/main'], {
  entryFileNames: '[name]-[hash].js',
  groups: splittingGroups(modules),
});
checkGroups(
  modules,
  [main, ...chunks].flatMap(({ moduleIds }) => moduleIds),
);
checkLoadedWith(chunks);
checkStart(main, chunks);
const define = { MAIN_FILE: JSON.stringify(main.fileName) };
const files = [
  main,
  ...chunks,
  ...(await bundle(['runner/main'])),
  ...(await bundle(['runner/sweep'])),
  ...(await bundle(['keeper/main'])),
  ...(await bundle(['start/run'], { define })),
];
const used = files.flatMap((file) => file.moduleIds ?? []);
for (const standIn of standIns) {
  if (!used.some((id) => id.endsWith(fileOf(standIn)))) {
    throw new Error(`Nothing asks for ${standIn.of} any longer: remove its stand-in`);
  }
}
writeFileSync(path.join(out, 'LICENSES.txt'), licences(used).join(`\n${'-'.repeat(80)}\n\n`));
// The package has ES modules; the bundle is CommonJS.
writeFileSync(path.join(out, 'package.json'), '{ "type": "commonjs" }\n');
