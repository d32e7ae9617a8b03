import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { excerpt } from '../../../contract/quote.js';
import { errorCode, faultWithoutPath } from '../../../files/error-code.js';

/** Milliseconds that a command of Slurm may take: without a controller each takes 9 seconds by itself. */
const deadline = 30_000;
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

function collect(stream: Readable): () => string {
  const chunks: Buffer[] = [];
  let length = 0;
  stream.on('data', (chunk: Buffer) => {
    length += chunk.length;
    if (length <= longestAnswer) chunks.push(chunk);
  });
  stream.on('error', () => {});
  return () => Buffer.concat(chunks).toString();
}

/**
 * Runs a command of Slurm, with words that no shell sees.
 * @param input what it reads
 * @returns what it printed
 * @throws SlurmFailure
 */
export async function runSlurm(
  program: string,
  words: readonly string[],
  environment: NodeJS.ProcessEnv,
  input = '',
): Promise<string> {
  // Not execa: its promise waits for the pipes, which a child of a command that hangs may keep open.
  const child = spawn(program, words, { cwd: '/', env: environment, stdio: 'pipe' });
  child.unref();
  const [stdout, stderr] = [collect(child.stdout), collect(child.stderr)];
  child.stdin.on('error', () => {});
  child.stdin.end(input);
  const timer = setTimeout(() => child.kill('SIGKILL'), deadline);
  try {
    await once(child, 'close');
  } catch (cause) {
    const isMissing = errorCode(cause) === 'ENOENT';
    const why = isMissing ? 'there is no such program on PATH' : faultWithoutPath(cause);
    throw new SlurmFailure(`${program} could not be started: ${why}`, !isMissing);
  } finally {
    clearTimeout(timer);
  }
  if (child.signalCode !== null) {
    throw new SlurmFailure(`${program} did not answer within ${deadline / 1000} seconds`, true);
  }
  if (child.exitCode === 0) return stdout();
  const said = stderr();
  const complaint = complaintOf(said);
  throw new SlurmFailure(
    complaint || `${program} failed (exit code ${child.exitCode})`,
    passing.test(complaint),
    limitLine.exec(said)?.[1] ?? null,
  );
}
