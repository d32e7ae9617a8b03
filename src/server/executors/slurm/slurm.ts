import { excerpt, oneLine, quoteName } from '../../../contract/index.js';
import { errorCode, faultWithoutPath } from '../../../files/index.js';
import { runProgram } from '../../../programs/index.js';
import { passedNames } from '../../sandbox/index.js';
import type { JobRef } from '../index.js';
import { batchEnvironment, batchOutput, batchScript } from './batch-script.js';
import { phaseOf, slurmName } from './queue.js';

/** `serve --slurm-*`: what every job requests from Slurm. */
export interface SlurmOptions {
  readonly partition: string | null;
  readonly account: string | null;
  readonly qos: string | null;
  /** A time limit in sbatch's format. */
  readonly time: string | null;
  readonly constraint: string | null;
  /** Further options of sbatch, one argument each: `--mem=16G`. */
  readonly args: readonly string[];
}

/** The options as arguments of sbatch. */
function optionWords({ partition, account, qos, time, constraint, args }: SlurmOptions): string[] {
  const named = { partition, account, qos, time, constraint };
  const given = Object.entries(named).flatMap(([name, value]) =>
    value === null ? [] : [`--${name}=${value}`],
  );
  return [...args, ...given];
}

/** Minutes of a time limit in Slurm's format, such as `90`, `90:30`, `4:00:00`, `2-0` or `1-12:30`; null for other text. */
export function minutesOf(text: string): number | null {
  if (/^(infinite|unlimited)$/i.test(text)) return Number.POSITIVE_INFINITY;
  const [, days, rest = ''] = /^(?:(\d+)-)?(\d+(?::\d+){0,2})$/.exec(text) ?? [];
  if (rest === '') return null;
  const [a = 0, b = 0, c = 0] = rest.split(':').map(Number);
  // Two numbers are hours and minutes after a day, otherwise minutes and seconds.
  if (days !== undefined) return Number(days) * 1440 + a * 60 + b + c / 60;
  return rest.split(':').length === 3 ? a * 60 + b + c / 60 : a + b / 60;
}

/** Minutes that the admin's options allow each job; null if they leave the limit to Slurm. */
function minutesAllowed({ time, args }: SlurmOptions): number | null {
  const words = args.flatMap((word) => /^--time=(.*)$/.exec(word)?.[1] ?? []);
  return minutesOf(time ?? words.at(-1) ?? '');
}

/** Milliseconds that a command of Slurm may take. Without a controller, each gives up after 9 seconds. */
const defaultTimeout = 30_000;
/** Maximum size in bytes of an answer: enough for a hundred thousand jobs. */
const maxAnswer = 32 << 20;

/** Error messages of Slurm's commands about a controller that cannot be reached or is too busy. */
const temporary =
  /unable to contact|connect failure|connection (?:refused|reset|timed out)|timed out|zero bytes|communication|temporarily|try again|standby mode|not responding|munge|authentication|protocol/i;

/** The line before sbatch's error message that names the limit, such as `QOSMaxSubmitJobPerUserLimit`. */
const limitLine = /^sbatch: error: ((?:Assoc|QOS)\w*Limit\w*)$/m;

/** Limits on the number of jobs in Slurm's queue, which allow another one as soon as one has ended. */
const queueLimit = /SubmitJob/;

/**
 * A command of Slurm that failed. `isTemporary`: the controller was not reached or did not answer in time, so the same
 * command may succeed later. It may have been carried out nevertheless.
 */
export class SlurmFailure extends Error {
  override readonly name = 'SlurmFailure';

  constructor(
    message: string,
    readonly isTemporary: boolean,
    /** Slurm's name for the limit that a job would exceed; null if not known. */
    readonly limit: string | null = null,
  ) {
    super(limit === null ? message : `${message} (${limit})`);
  }

  /** Whether Slurm's queue has as many jobs as a limit allows. */
  get isQueueFull(): boolean {
    return this.limit !== null && queueLimit.test(this.limit);
  }
}

/** The error message of a command, without the command's name. */
function complaintOf(stderr: string): string {
  const lines = stderr.split('\n').filter((line) => line.trim() !== '');
  const line = lines.findLast((each) => /error:|fail/i.test(each)) ?? lines.at(-1) ?? '';
  const words = line.replace(/^\w+: (?:error: |fatal: )?/, '').replace(/^Batch job submission failed: /, '');
  return excerpt(words.trim(), 500);
}

/**
 * Whether a variable changes what Slurm's commands do or print. `SLURM_CONF`, which selects the cluster, does not count.
 */
const isSlurmVariable = (name: string): boolean =>
  /^(?:SLURM|SLURMD|SBATCH|SQUEUE|SINFO|SCANCEL|SACCT|SALLOC|SRUN)_/.test(name) && name !== 'SLURM_CONF';

/** The environment without the variables of the Slurm job that the server itself may run in. */
const withoutSlurmJob = (environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(environment).filter(([name]) => !isSlurmVariable(name)));

/**
 * Runs a command of Slurm, without a shell.
 * @param input its standard input
 * @param timeout milliseconds that it may take
 * @returns what it printed
 * @throws SlurmFailure
 */
export async function runSlurm(
  program: string,
  words: readonly string[],
  environment: NodeJS.ProcessEnv,
  input = '',
  timeout = defaultTimeout,
): Promise<string> {
  const end = await runProgram([program, ...words], {
    environment,
    input,
    limit: timeout,
    maxBytes: maxAnswer,
    beyond: 'keepFirst',
  }).catch((cause: unknown) => {
    const isMissing = errorCode(cause) === 'ENOENT';
    const why = isMissing ? 'there is no such program on PATH' : faultWithoutPath(cause);
    throw new SlurmFailure(`${program} could not be started: ${why}`, !isMissing);
  });
  const { exitCode, signal, stdout, stderr } = end;
  if (end.endedFor !== null)
    throw new SlurmFailure(`${program} did not answer within ${timeout / 1000} seconds`, true);
  if (exitCode === null) throw new SlurmFailure(`${program} was ended by ${signal}`, true);
  if (exitCode === 0) return stdout;
  const complaint = complaintOf(stderr);
  throw new SlurmFailure(
    complaint || `${program} failed (exit code ${exitCode})`,
    temporary.test(complaint),
    limitLine.exec(stderr)?.[1] ?? null,
  );
}

export interface SlurmSettings {
  readonly options: SlurmOptions;
  /** The environment of the commands and of jobs: the server's, without its token variables. */
  readonly environment: NodeJS.ProcessEnv;
  /** Names of further variables that jobs get: `serve --pass-env`. */
  readonly passEnvironment: readonly string[];
}

/** Variables by which Slurm names the devices of a job. The server's own are not passed on. */
export const deviceVariables = [
  'CUDA_VISIBLE_DEVICES',
  'GPU_DEVICE_ORDINAL',
  'ROCR_VISIBLE_DEVICES',
  'ZE_AFFINITY_MASK',
] as const;

/** The resources that a job requests from Slurm. */
export interface Resources {
  readonly gpus: number;
  /** Null if that is left to Slurm. */
  readonly cpus: number | null;
  /** MiB; null if that is left to Slurm. */
  readonly memory: number | null;
  /** Minutes that it may run; null if only Slurm's own limit applies. */
  readonly minutes: number | null;
}

/** The commands of Slurm as this service uses them. */
export class Slurm {
  /** The environment of the commands. */
  readonly #environment: NodeJS.ProcessEnv;

  constructor(private readonly settings: SlurmSettings) {
    this.#environment = withoutSlurmJob(settings.environment);
  }

  squeue(words: readonly string[]): Promise<string> {
    return runSlurm('squeue', words, this.#environment);
  }

  sinfo(words: readonly string[]): Promise<string> {
    return runSlurm('sinfo', words, this.#environment);
  }

  /**
   * A job's resources and the admin's options as arguments. A later argument wins: the admin's options over the resources, and
   * the options that a job cannot do without over the admin's. sbatch accepts only one of the options that name memory.
   */
  #optionsFor({ gpus, cpus, memory, minutes }: Resources): string[] {
    const { options } = this.settings;
    const isMemoryNamed = options.args.some((word) => /^--mem(-per-[cg]pu)?=/.test(word));
    const resources = [
      ...(gpus > 0 ? [`--gres=gpu:${gpus}`] : []),
      ...(cpus === null ? [] : [`--cpus-per-task=${cpus}`]),
      ...(memory === null || isMemoryNamed ? [] : [`--mem=${memory}M`]),
    ];
    const allowed = minutesAllowed(options) ?? Number.POSITIVE_INFINITY;
    const time = minutes === null || minutes >= allowed ? [] : [`--time=${minutes}`];
    return [...resources, ...optionWords(options), ...time, '--nodes=1', '--ntasks=1'];
  }

  /**
   * Submits a job, which Slurm never requeues.
   * @returns its id in Slurm
   * @throws SlurmFailure; if it is temporary, the job may have been submitted nevertheless
   */
  async submit(job: JobRef, resources: Resources): Promise<number> {
    const words = [
      ...this.#optionsFor(resources),
      '--parsable',
      `--job-name=${slurmName(job.id)}`,
      `--chdir=${job.path}`,
      `--output=${batchOutput}`,
      '--open-mode=append',
      '--no-requeue',
      '--export=ALL',
    ];
    const environment = { ...this.#jobEnvironment(), ...batchEnvironment(job) };
    const answer = await runSlurm('sbatch', words, environment, batchScript);
    // sbatch prints a number; in a federation, the name of the cluster follows.
    const [, id] = /^([1-9]\d{0,9})(?:;\S*)?$/m.exec(answer) ?? [];
    if (id === undefined)
      throw new SlurmFailure(`sbatch printed no number of a job: ${quoteName(answer.trim())}`, false);
    return Number(id);
  }

  /** The environment variables that a job gets. There are no others, because Slurm stores them as long as the job. */
  #jobEnvironment(): NodeJS.ProcessEnv {
    const rules = { isSandboxed: false, network: true, added: this.settings.passEnvironment };
    const names = ['SLURM_CONF', ...passedNames(this.#environment, rules)];
    const passed = names.filter((name) => !(deviceVariables as readonly string[]).includes(name));
    return Object.fromEntries(passed.map((name) => [name, this.#environment[name]]));
  }

  /** Asks whether Slurm would accept such a job. @throws SlurmFailure */
  async test(): Promise<void> {
    const words = [...this.#optionsFor({ gpus: 0, cpus: 1, memory: null, minutes: null }), '--test-only'];
    await runSlurm('sbatch', words, this.#environment, batchScript);
  }

  /** Ends jobs in any state: Slurm sends SIGTERM to their processes, and SIGKILL after its KillWait. @throws SlurmFailure */
  async cancel(ids: readonly number[]): Promise<void> {
    if (ids.length > 0) await runSlurm('scancel', ids.map(String), this.#environment);
  }

  /** Sends SIGTERM only to the batch script of a running job. @throws SlurmFailure */
  async terminate(id: number): Promise<void> {
    await runSlurm('scancel', ['--batch', '--signal=TERM', String(id)], this.#environment);
  }

  /** How a job ended according to Slurm's accounting; null if there is no accounting or it does not know. */
  async accounted(id: number): Promise<{ readonly state: string; readonly node: string } | null> {
    const words = ['--noheader', '--allocations', '--parsable2', `--jobs=${id}`, '--format=State,NodeList'];
    try {
      const answer = await runSlurm('sacct', words, this.#environment);
      // The state of a cancelled job includes the user: CANCELLED by 1000.
      const [, state, node = ''] = /^([A-Z_]+)[^|\n]*\|(.*)$/m.exec(answer) ?? [];
      // A job that Slurm has lost stays RUNNING in its accounting.
      if (state === undefined || phaseOf({ state }) !== 'ended') return null;
      return { state, node: node === 'None assigned' ? '' : node };
    } catch {
      return null;
    }
  }

  /** Names of all partitions. @throws SlurmFailure */
  async partitions(): Promise<string[]> {
    const answer = await this.sinfo(['--noheader', '--format=%R']);
    return [...new Set(answer.split('\n').filter(Boolean))].map((name) => oneLine(name.trim()));
  }

  async version(): Promise<string> {
    return oneLine((await this.sinfo(['--version'])).trim());
  }
}
