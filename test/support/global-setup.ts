import { execFile } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { codeVariable } from './code-cache.js';

const run = promisify(execFile);

/**
 * Makes a directory for the temporary directories of all tests: in memory where mounting is allowed, because tests make, sync
 * and remove many thousand small files. On a disk each of them gets a block group of its own there: without a journal, ext4
 * looks at each inode that was removed in the last minutes whenever it makes a file. The name of the directory is short,
 * because tests make sockets below it, and other users may work in it, as in `/tmp`.
 */
async function spacious(): Promise<string> {
  const directory = await mkdtemp(path.join(tmpdir(), 'ra-'));
  await run('mount', ['-t', 'tmpfs', 'tmpfs', directory]).catch(() => {});
  await chmod(directory, 0o1777);
  // Other file systems neither need nor have this attribute.
  await run('chattr', ['+T', directory]).catch(() => {});
  return directory;
}

/**
 * The directory of the Python that `python3` starts, for the front of PATH: that of pyenv is a script that looks for it at
 * each start, which takes several times as long as the start itself. Empty where PATH has the directory, or there is no Python.
 */
async function directoryOfPython(PATH: string): Promise<string> {
  const words = ['-c', 'import os, sys; print(os.path.dirname(sys.executable))'];
  const found = await run('python3', words).catch(() => null);
  const directory = found?.stdout.trim() ?? '';
  return PATH.split(path.delimiter).includes(directory) ? '' : directory;
}

/** Runs before all tests; returns what runs after them. */
export default async function setUp(): Promise<() => Promise<void>> {
  // The test processes inherit what is set here.
  const directory = await spacious();
  process.env.TMPDIR = directory;
  if (process.platform === 'win32') process.env.TEMP = directory;
  const code = path.join(directory, 'code');
  await mkdir(code);
  process.env[codeVariable] = code;
  const { PATH = '' } = process.env;
  process.env.PATH = [await directoryOfPython(PATH), PATH].filter(Boolean).join(path.delimiter);
  // Node would read these certificates at each start, which takes longer than the start itself.
  delete process.env.NODE_EXTRA_CA_CERTS;
  // To start a program, Node forks, which takes longer the more memory the process has. So glibc gives back what was freed: once
  // this default is set, it no longer raises it after each large buffer.
  process.env.MALLOC_TRIM_THRESHOLD_ = '131072';
  return async () => {
    await rm(code, { recursive: true, force: true });
    // Files that a test left behind stay, so that somebody can look at them. Mere directories come from skipped tests.
    const left = await readdir(directory, { recursive: true, withFileTypes: true });
    if (left.some((entry) => !entry.isDirectory())) return;
    // Lazily, because the test processes have not ended yet and may still use it.
    await run('umount', ['--lazy', '--recursive', directory]).catch(() => {});
    await rm(directory, { recursive: true }).catch(() => {});
  };
}
