/**
 * Copies NiiVue into dist/, for pages with volumes: one script that has its dependencies inside, and the licences of all of
 * them. Its package has no file of its licence, which therefore lies here.
 */
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const place = (...names) => path.join(root, ...names);
const describe = (name) => JSON.parse(readFileSync(place('node_modules', name, 'package.json'), 'utf8'));

/** The packages that a package needs, and those that these need. */
function needed(name, found = new Set()) {
  for (const each of Object.keys(describe(name).dependencies ?? {})) {
    if (found.has(each)) continue;
    found.add(each);
    needed(each, found);
  }
  return found;
}

function licenceOf(name) {
  const directory = place('node_modules', name);
  const file = readdirSync(directory).find((each) => /^licen[cs]e/i.test(each));
  if (!file) throw new Error(`The package ${name} has no licence to ship with NiiVue.`);
  return `${name} ${describe(name).version}\n\n${readFileSync(path.join(directory, file), 'utf8').trim()}\n`;
}

const niivue = '@niivue/niivue';
const own = readFileSync(place('tools', 'niivue-licence.txt'), 'utf8').trim();
const licences = [
  `${niivue} ${describe(niivue).version}, https://github.com/niivue/niivue\n\n${own}\n`,
  ...[...needed(niivue)].sort().map(licenceOf),
];
mkdirSync(place('dist', 'niivue'), { recursive: true });
copyFileSync(
  place('node_modules', niivue, 'dist', 'niivue.umd.js'),
  place('dist', 'niivue', 'niivue.umd.js'),
);
writeFileSync(place('dist', 'niivue', 'LICENCES.txt'), licences.join(`\n${'-'.repeat(80)}\n\n`));
