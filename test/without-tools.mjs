// @ts-check
/**
 * Runs the test files that use optional tools, or only name one, as on a machine without them: in a mount namespace where the tools are gone and the
 * checkout lies in a directory that only its user may enter. Fails if a test fails, or if no test was skipped for one of the tools.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, realpathSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { packages, placesOf } from './support/needs.mjs';

const namespace = ['unshare', '--mount', '--propagation', 'private'];
const checkout = fileURLToPath(new URL('..', import.meta.url));
const place = mkdtempSync(path.join(tmpdir(), 'remote-app-private-'));
const tools = Object.keys(packages);
const programs = tools.flatMap(placesOf);
const directories = new Set(programs.map((program) => realpathSync(path.dirname(program))));

/** A tool in a command, and not a function of this name. */
const named = new RegExp(`^(?!import ).*\\b(${tools.join('|')})\\b(?!\\()`, 'm');
/** What names a tool: a test in there may have forgotten to say that it needs it. */
const suspects = readdirSync(path.join(checkout, 'test'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts') && !/\.(slurm|package)\.ts$/.test(name))
  .map((name) => path.join('test', name))
  .filter((name) => named.test(readFileSync(path.join(checkout, name), 'utf8')));

/** What is done in the namespace, and ends with it: an overlay on each directory, and the programs removed from there. */
const script = [
  'set -e',
  `mount -t tmpfs -o mode=700 tmpfs ${place}`,
  `mkdir ${place}/checkout`,
  `mount --bind '${checkout}' ${place}/checkout`,
  ...[...directories].flatMap((directory, index) => {
    const [upper, work] = ['upper', 'work'].map((name) => `${place}/${index}-${name}`);
    const options = `lowerdir=${directory},upperdir=${upper},workdir=${work}`;
    return [`mkdir ${upper} ${work}`, `mount -t overlay -o '${options}' overlay '${directory}'`];
  }),
  `rm -f ${programs.map((program) => `'${program}'`).join(' ')}`,
  `cd ${place}/checkout`,
  `exec node_modules/.bin/vitest related --run test/support/needs.mjs ${suspects.join(' ')} 2>&1`,
].join('\n');

if (spawnSync(namespace[0] ?? '', [...namespace.slice(1), 'true']).status !== 0) {
  console.log('skipped: hiding tools needs root, and the right to make mount namespaces');
  rmdirSync(place);
  process.exit();
}
const child = spawn(namespace[0] ?? '', [...namespace.slice(1), 'sh', '-c', script], {
  stdio: ['ignore', 'pipe', 'inherit'],
});
let printed = '';
child.stdout.setEncoding('utf8').on('data', (text) => {
  process.stdout.write(text);
  printed += text;
});
const [code] = await once(child, 'close');
rmdirSync(place);
const unmissed = tools.filter((tool) => !printed.includes(`Tests that need ${tool} are skipped: `));
if (unmissed.length > 0) console.error(`No test was skipped without ${unmissed.join(', ')}`);
process.exitCode = code === 0 && unmissed.length === 0 ? 0 : 1;
