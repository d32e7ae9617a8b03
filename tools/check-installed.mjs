/** Says what to do in a checkout without packages, in which every script fails with a command that is not found. */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const needed = ['typescript', '@oclif/core', '@niivue/niivue'];
const isThere = (name) =>
  existsSync(fileURLToPath(new URL(`../node_modules/${name}/package.json`, import.meta.url)));

if (!needed.every(isThere)) {
  console.error(
    "The packages of this checkout are not installed: run 'npm ci' first, then the command again.",
  );
  process.exitCode = 1;
}
