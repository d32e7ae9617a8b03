import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll } from 'vitest';
import { skipped } from './needs.mjs';
import { until } from './until.mjs';

/** A file system of its own for the tests of a file, in memory; null where mounting one is not allowed. */
export function mounted(type: 'tmpfs' | 'ramfs', options: readonly string[] = []): string | null {
  const directory = mkdtempSync(path.join(tmpdir(), 'remote-app-disk-'));
  try {
    execFileSync('mount', ['-t', type, ...options, type, directory], { stdio: 'ignore' });
  } catch {
    rmdirSync(directory);
    skipped('the right to mount a file system');
    return null;
  }
  afterAll(async () => {
    // A process that has just ended may keep it for a moment.
    await until(
      `${directory} is used no more`,
      () => spawnSync('umount', [directory], { stdio: 'ignore' }).status === 0,
    );
    rmdirSync(directory);
  });
  return directory;
}

/**
 * A disk of this size.
 * @param inodes files and directories that it can hold; by default more than any test makes
 */
export function smallDisk(mebibytes: number, inodes?: number): string | null {
  return mounted('tmpfs', ['-o', `size=${mebibytes}m${inodes === undefined ? '' : `,nr_inodes=${inodes}`}`]);
}
