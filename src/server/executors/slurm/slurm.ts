import { oneLine, quoteName } from '../../../contract/quote.js';
import { passedNames } from '../../sandbox/passed-environment.js';
import type { JobPlace } from '../executor.js';
import { batchEnvironment, batchScript, type NodePrograms } from './batch-script.js';
import { outsideOfJobs, runSlurm, SlurmFailure } from './commands.js';
import { batchOutput } from './handshake.js';
import { minutesAllowed, optionWords, type SlurmOptions } from './options.js';
import { slurmName, stageOf } from './queue-rows.js';

export interface SlurmSettings {
  readonly options: SlurmOptions;
  /** The environment of the commands and of jobs: the server's, without its token variables. */
  readonly environment: NodeJS.ProcessEnv;
  readonly programs: NodePrograms;
  /** Names of variables that jobs get beside those of the table: `serve --pass-env`. */
  readonly passEnvironment: readonly string[];
  /** The file that batch scripts ring. */
  readonly bell: string;
}

/** Variables by which Slurm names the devices of a job: those of the server itself say nothing of them. */
export const deviceVariables = [
  'CUDA_VISIBLE_DEVICES',
  'GPU_DEVICE_ORDINAL',
  'ROCR_VISIBLE_DEVICES',
  'ZE_AFFINITY_MASK',
] as const;

/** What a job asks Slurm for. */
export interface Resources {
  readonly gpus: number;
  readonly cpus: number;
  /** Minutes that it may run; null for as long as Slurm lets it. */
  readonly minutes: number | null;
}

/** Slurm as this service uses it: what is asked of which command, in words. */
export class Slurm {
  /** The environment of the commands. */
  readonly #environment: NodeJS.ProcessEnv;

  constructor(private readonly settings: SlurmSettings) {
    this.#environment = outsideOfJobs(settings.environment);
  }

  squeue(words: readonly string[]): Promise<string> {
    return runSlurm('squeue', words, this.#environment);
  }

  sinfo(words: readonly string[]): Promise<string> {
    return runSlurm('sinfo', words, this.#environment);
  }

  /** Words that the admin's options and a job's resources come to. A later word wins, so ours are last. */
  #asked({ gpus, cpus, minutes }: Resources): string[] {
    const { options } = this.settings;
    const devices = gpus > 0 ? [`--gres=gpu:${gpus}`] : [`--cpus-per-task=${cpus}`];
    const allowed = minutesAllowed(options) ?? Number.POSITIVE_INFINITY;
    const time = minutes === null || minutes >= allowed ? [] : [`--time=${minutes}`];
    return [...optionWords(options), ...time, '--nodes=1', '--ntasks=1', ...devices];
  }

  /**
   * Submits a job, which is never queued a second time by Slurm.
   * @returns Slurm's number of it
   * @throws SlurmFailure; if it is a passing one, the job may have been submitted all the same
   */
  async submit(job: JobPlace, resources: Resources): Promise<number> {
    const { programs, bell } = this.settings;
    const words = [
      ...this.#asked(resources),
      '--parsable',
      `--job-name=${slurmName(job.id)}`,
      `--chdir=${job.path}`,
      `--output=${batchOutput}`,
      '--open-mode=append',
      '--no-requeue',
      '--export=ALL',
    ];
    const environment = { ...this.#jobEnvironment(), ...batchEnvironment(job, programs, bell) };
    const answer = await runSlurm('sbatch', words, environment, batchScript);
    // A number, or a number and the name of a cluster.
    const [, id] = /^([1-9]\d{0,9})(?:;\S*)?$/m.exec(answer) ?? [];
    if (id === undefined)
      throw new SlurmFailure(`sbatch printed no number of a job: ${quoteName(answer.trim())}`, false);
    return Number(id);
  }

  /** What of the server's environment goes with a job, and is kept by Slurm as long as the job: nothing that is not passed on. */
  #jobEnvironment(): NodeJS.ProcessEnv {
    const rules = { isSandboxed: false, network: true, added: this.settings.passEnvironment };
    const names = ['SLURM_CONF', ...passedNames(this.#environment, rules)];
    const passed = names.filter((name) => !(deviceVariables as readonly string[]).includes(name));
    return Object.fromEntries(passed.map((name) => [name, this.#environment[name]]));
  }

  /** Asks whether Slurm would take such a job. @throws SlurmFailure */
  async test(): Promise<void> {
    const words = [...this.#asked({ gpus: 0, cpus: 1, minutes: null }), '--test-only'];
    await runSlurm('sbatch', words, this.#environment, batchScript);
  }

  /** Ends jobs in any state: Slurm sends SIGTERM to what runs of them, and SIGKILL after its KillWait. @throws SlurmFailure */
  async cancel(ids: readonly number[]): Promise<void> {
    if (ids.length > 0) await runSlurm('scancel', ids.map(String), this.#environment);
  }

  /** Sends SIGTERM to the batch script of a running job, and to nothing else of it. @throws SlurmFailure */
  async terminate(id: number): Promise<void> {
    await runSlurm('scancel', ['--batch', '--signal=TERM', String(id)], this.#environment);
  }

  /** How a job ended by Slurm's accounting; null without accounting, or if it does not know the job. */
  async accounted(id: number): Promise<{ readonly state: string; readonly node: string } | null> {
    const words = ['--noheader', '--allocations', '--parsable2', `--jobs=${id}`, '--format=State,NodeList'];
    try {
      const answer = await runSlurm('sacct', words, this.#environment);
      // A cancelled job has by whom: CANCELLED by 1000.
      const [, state, node = ''] = /^([A-Z_]+)[^|\n]*\|(.*)$/m.exec(answer) ?? [];
      // Of a job that Slurm has lost accounting says for ever that it runs.
      if (state === undefined || stageOf({ state }) !== 'ended') return null;
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
