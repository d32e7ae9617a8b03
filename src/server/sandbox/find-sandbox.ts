import { execFile } from 'node:child_process';
import { statSync } from 'node:fs';
import { platform } from 'node:os';
import { promisify } from 'node:util';
import { oneLine } from '../../contract/quote.js';
import { findProgram } from '../../files/find-program.js';
import { SetupError } from '../setup-error.js';
import { freeze } from './freeze.js';
import { emptySandbox, Sandbox, type SandboxRules } from './sandbox.js';
import { namesOf, resolved } from './secret-files.js';
import { systemCallFilter } from './system-call-filter.js';
import { systemFiles } from './system-files.js';
import { complaint } from './try-stage.js';
import { isWithin, realPath } from './visible.js';

/** `serve --sandbox`. */
export type SandboxMode = 'auto' | 'bwrap' | 'off';

/** What a start has found: a sandbox, or why there is none. */
export type FoundSandbox =
  | {
      readonly sandbox: Sandbox;
      readonly version: string;
      /** Why the system calls of jobs are not filtered; empty if they are. */
      readonly unfiltered: string;
    }
  | { readonly sandbox: null; readonly problem: string };

/** Milliseconds that the first sandbox may take. */
const patience = 10_000;

const run = promisify(execFile);

/** Starts one sandbox with nothing in it. @returns what bwrap said if that failed; null if it works */
async function problemOf(program: string, filter: Buffer | undefined): Promise<string | null> {
  const words = filter ? ['--seccomp', '0'] : [];
  try {
    const started = run(program, [...emptySandbox(false), ...words, '--', 'true'], { timeout: patience });
    // bwrap may have ended already.
    started.child.stdin?.on('error', () => {});
    started.child.stdin?.end(filter);
    await started;
    return null;
  } catch (cause) {
    return complaint(cause);
  }
}

async function versionOf(program: string): Promise<string> {
  const { stdout } = await run(program, ['--version'], { timeout: patience }).catch(() => ({
    stdout: 'bwrap',
  }));
  return oneLine(stdout.trim());
}

/**
 * @throws SetupError for a path that does not exist, that would show jobs to each other, or that would give them the
 * server's tokens
 */
function checkRules({ binds, dataDirectory, secretFiles }: SandboxRules): void {
  for (const { path: file, isWritable } of binds) {
    const flag = isWritable ? '--bind-rw' : '--bind';
    if (!statSync(file, { throwIfNoEntry: false })) {
      throw new SetupError(`${flag} ${file}: there is no such file or directory`);
    }
    const real = realPath(file);
    if (isWithin(real, dataDirectory) || isWithin(dataDirectory, real)) {
      throw new SetupError(
        `${flag} ${file}: the data directory ${dataDirectory} is there, and no job may see that of the others; name a directory beside it`,
      );
    }
    const secret = isWritable ? secretFiles.flatMap(namesOf).find((each) => isWithin(real, each)) : undefined;
    if (secret !== undefined) {
      throw new SetupError(
        `${flag} ${file}: ${secret} is there, and no job may replace the server's tokens or its audit log; name a directory beside it`,
      );
    }
  }
}

/** @throws SetupError for a file with tokens that the sandboxes of all jobs could not hide */
function checkSecrets(rules: SandboxRules): void {
  const named = rules.binds.map((each) => each.path);
  freeze(rules, [...systemFiles().directories, ...named], named.map(realPath));
}

async function find(rules: SandboxRules): Promise<FoundSandbox> {
  if (platform() !== 'linux') return { sandbox: null, problem: 'bubblewrap is there for Linux alone' };
  const program = findProgram('bwrap', process.env.PATH ?? '');
  if (program === undefined) {
    return {
      sandbox: null,
      problem: 'bwrap is not installed (Debian and Ubuntu: apt-get install bubblewrap)',
    };
  }
  const filter = systemCallFilter(process.arch);
  const [problem, version] = await Promise.all([problemOf(program, filter), versionOf(program)]);
  if (problem === null) {
    const unfiltered = filter ? '' : `there is no filter of system calls for ${process.arch}`;
    return { sandbox: new Sandbox(program, rules, filter), version, unfiltered };
  }
  // The kernel may have no seccomp filters.
  if (filter === undefined || (await problemOf(program, undefined)) !== null) {
    return { sandbox: null, problem: `bwrap does not work here (${problem})` };
  }
  const unfiltered = `system calls cannot be filtered here (${problem})`;
  return { sandbox: new Sandbox(program, rules, undefined), version, unfiltered };
}

/**
 * The sandbox of the jobs, tried with a real one.
 * @throws SetupError where `bwrap` is asked for and does not work
 */
export async function findSandbox(mode: SandboxMode, rules: SandboxRules): Promise<FoundSandbox> {
  if (mode === 'off') return { sandbox: null, problem: '' };
  checkRules(rules);
  const found = await find(rules);
  if (found.sandbox) checkSecrets(rules);
  if (mode === 'bwrap' && found.sandbox === null) {
    throw new SetupError(`--sandbox bwrap: ${found.problem}; without a sandbox: --sandbox off`);
  }
  return found;
}

/** What the admin says of sandboxes, as `serve` and its check give it. */
export const sandboxRules = ({ binds, dataDirectory, secretFiles }: SandboxRules): SandboxRules => ({
  binds,
  dataDirectory: resolved(dataDirectory),
  secretFiles,
});
