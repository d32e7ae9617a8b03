/**
 * Makes the wheel for Python of what is built, with pip.
 * Usage: node tools/wheel.mjs [DIRECTORY]
 */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { description, openForReading, putProgram, root } from './program.mjs';

/** @returns the wheel's path */
export function makeWheel(directory = root) {
  const stage = mkdtempSync(path.join(tmpdir(), 'remote-app-wheel-'));
  try {
    cpSync(path.join(root, 'python'), stage, { recursive: true });
    cpSync(path.join(root, 'LICENSE'), path.join(stage, 'LICENSE'));
    putProgram(path.join(stage, 'program'));
    openForReading(stage);
    const words = ['-m', 'pip', 'wheel', '--quiet', '--no-deps', '--wheel-dir', directory, stage];
    execFileSync('python3', words, { stdio: ['ignore', 2, 'inherit'] });
    return path.join(directory, `remote_app-${description.version}-py3-none-any.whl`);
  } finally {
    rmSync(stage, { recursive: true, force: true });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) console.log(makeWheel(process.argv[2]));
