import { type ChildProcess, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { excerpt } from '../../../contract/quote.js';
import { errorCode, faultWithoutPath } from '../../../files/error-code.js';
import { type ProgramEnd, programEnd } from '../../../files/program-end.js';

/** Milliseconds that a command of Slurm may take: without a controller each takes 9 seconds by itself. */
const usualDeadline = 30_000;
/** Characters of an answer: a hundred thousand jobs. */
const longestAnswer = 32 << 20;

/** What Slurm's commands say if the controller cannot be reached or has no time, and the same may succeed later. */
const passing =
  /unable to contact|connect failure|connection (?:refused|reset|timed out)|timed out|zero bytes|communication|temporarily|try again|standby mode|not responding|munge|authentication|protocol/i;

/** A line of sbatch that is the name of a limit, such as `QOSMaxSubmitJobPerUserLimit`: it comes before the complaint. */
const limitLine = /^sbatch: error: ((?:Assoc|QOS)\w*Limit\w*)$/m;

/** The limits of jobs that Slurm has in its queue at once: there is room again when one has ended. */
const ofSubmissions = /SubmitJob/;

/**
 * A command of Slurm that failed. `isPassing`: the controller was not reached, or the command did not answer in time, so
 * that the same may succeed later. Nobody knows then whether it was carried out.
 */
export class SlurmFailure extends Error {
  override readonly name = 'SlurmFailure';

  constructor(
    message: string,
    readonly isPassing: boolean,
    /** Name of the limit that a job would exceed; null if it is not known. */
    readonly limit: string | null = null,
  ) {
    super(limit === null ? message : `${message} (${limit})`);
  }

  /** Whether Slurm has as many jobs as it takes: the same may succeed when one of them has ended. */
  get isCrowded(): boolean {
    return this.limit !== null && ofSubmissions.test(this.limit);
  }
}

/** What a command complained of, without its name before it. */
function complaintOf(stderr: string): string {
  const lines = stderr.split('\n').filter((line) => line.trim() !== '');
  const line = lines.findLast((each) => /error:|fail/i.test(each)) ?? lines.at(-1) ?? '';
  const words = line.replace(/^\w+: (?:error: |fatal: )?/, '').replace(/^Batch job submission failed: /, '');
  return excerpt(words.trim(), 500);
}

/** Variables that change what Slurm's commands do or print, except those that say which cluster there is. */
const isOfSlurm = (name: string): boolean =>
  /^(?:SLURM|SLURMD|SBATCH|SQUEUE|SINFO|SCANCEL|SACCT|SALLOC|SRUN)_/.test(name) && name !== 'SLURM_CONF';

/** The environment without the variables of a Slurm job that the server itself may run in. */
export const outsideOfJobs = (environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(environment).filter(([name]) => !isOfSlurm(name)));

/** Reads a stream; of one that is too long, the beginning. */
function collect(stream: Readable | null | undefined): () => string {
  const chunks: Buffer[] = [];
  let length = 0;
  stream?.on('data', (chunk: Buffer) => {
    length += chunk.length;
    if (length <= longestAnswer) chunks.push(chunk);
  });
  stream?.on('error', () => {});
  return () => Buffer.concat(chunks).toString();
}

/** Ends a command that hangs, or what it left behind with its pipes; a pipe of what survives that is not waited for. */
function abandon({ pid, stdout, stderr }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
  for (const pipe of [stdout, stderr]) pipe?.destroy();
}

/** Waits for the end of a command. @throws SlurmFailure if it does not answer in time; the system's error */
async function endOf(child: ChildProcess, program: string, deadline: number): Promise<ProgramEnd> {
  let isClosed = false;
  let timer: NodeJS.Timeout | undefined;
  try {
    const late = new Promise<never>((_, reject) => {
      const problem = `${program} did not answer within ${deadline / 1000} seconds`;
      timer = setTimeout(() => reject(new SlurmFailure(problem, true)), deadline);
    });
    const end = await Promise.race([programEnd(child, collect), late]);
    isClosed = end.isClosed;
    return end;
  } finally {
    clearTimeout(timer);
    if (!isClosed) abandon(child);
  }
}

/**
 * Runs a command of Slurm, with words that no shell sees.
 * @param input what it reads
 * @param deadline milliseconds that it may take
 * @returns what it printed
 * @throws SlurmFailure
 */
export async function runSlurm(
  program: string,
  words: readonly string[],
  environment: NodeJS.ProcessEnv,
  input = '',
  deadline = usualDeadline,
): Promise<string> {
  // In a group of its own, so that a wrapper of the command is ended with what it started.
  const child = spawn(program, words, { cwd: '/', env: environment, stdio: 'pipe', detached: true });
  const ended = endOf(child, program, deadline);
  child.unref();
  const stdin: Writable | undefined = child.stdin;
  stdin?.on('error', () => {});
  stdin?.end(input);
  const { exitCode, signal, stdout, stderr } = await ended.catch((cause: unknown) => {
    if (cause instanceof SlurmFailure) throw cause;
    const isMissing = errorCode(cause) === 'ENOENT';
    const why = isMissing ? 'there is no such program on PATH' : faultWithoutPath(cause);
    throw new SlurmFailure(`${program} could not be started: ${why}`, !isMissing);
  });
  if (exitCode === null) throw new SlurmFailure(`${program} was ended by ${signal}`, true);
  if (exitCode === 0) return stdout;
  const complaint = complaintOf(stderr);
  throw new SlurmFailure(
    complaint || `${program} failed (exit code ${exitCode})`,
    passing.test(complaint),
    limitLine.exec(stderr)?.[1] ?? null,
  );
}
