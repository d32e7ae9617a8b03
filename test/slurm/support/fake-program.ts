import { execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** A program that stands before a real one in PATH. */
export interface FakeProgram extends Disposable {
  /** For PATH. */
  readonly directory: string;
  /** What its script has written into `$notes`. */
  notes(): string;
}

/**
 * Puts a shell script in the place of a program of Slurm. In it `$real` is the real program, and `$notes` a file.
 */
export function fakeProgram(name: string, script: string): FakeProgram {
  const directory = mkdtempSync(path.join(tmpdir(), 'remote-app-test-fake-'));
  const real = execFileSync('sh', ['-c', 'command -v "$1" || true', 'sh', name], { encoding: 'utf8' }).trim();
  const notes = path.join(directory, 'notes');
  writeFileSync(notes, '');
  const file = path.join(directory, name);
  writeFileSync(file, `#!/bin/bash\nreal='${real}'\nnotes='${notes}'\n${script}\n`);
  chmodSync(file, 0o755);
  chmodSync(directory, 0o755);
  chmodSync(notes, 0o666);
  return {
    directory,
    notes: () => readFileSync(notes, 'utf8'),
    [Symbol.dispose]: () => rmSync(directory, { recursive: true, force: true }),
  };
}
