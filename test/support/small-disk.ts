import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll } from 'vitest';

/**
 * A file system of its own for the tests of a file, in memory; null where mounting one is not allowed.
 * @param inodes files and directories that it can hold; by default more than any test makes
 */
export function smallDisk(mebibytes: number, inodes?: number): string | null {
  const directory = mkdtempSync(path.join(tmpdir(), 'remote-app-disk-'));
  try {
    const size = `size=${mebibytes}m${inodes === undefined ? '' : `,nr_inodes=${inodes}`}`;
    execFileSync('mount', ['-t', 'tmpfs', '-o', size, 'tmpfs', directory], { stdio: 'ignore' });
  } catch {
    rmdirSync(directory);
    return null;
  }
  afterAll(() => {
    execFileSync('umount', [directory]);
    rmdirSync(directory);
  });
  return directory;
}
