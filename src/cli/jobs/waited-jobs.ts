import type { JobAnswer } from '../../client/connection/index.js';
import type { JobFailed } from '../../client/errors.js';
import { progressOf } from '../../client/job-progress.js';
import type { Reporter } from '../../client/reporter.js';
import { exitCodes, isFinal, type JobState } from '../../contract/index.js';
import { exitWithWorst, type JobsOutput, tellFailure } from '../each-job.js';
import { endLine } from '../job-text.js';
import type { ErrorDocument } from '../terminal/tell-error.js';

/** How a wait for a job ended. */
export interface WaitedJob {
  readonly job_id: string;
  /** Null if it is not known. */
  readonly status: JobState | null;
  /** Why there is no result, or why the wait ended before the job. */
  readonly error: ErrorDocument['error'] | null;
  readonly exit_code: number;
}

export interface WaitSummary {
  /** One entry for each job, in the order in which they were named. */
  readonly jobs: readonly WaitedJob[];
}

/** The jobs that are waited for, and those whose wait is over. */
export class WaitedJobs {
  readonly #views = new Map<string, JobAnswer>();
  readonly #over = new Map<string, WaitedJob>();
  /** Ids of the jobs that are waited for. */
  readonly pending: Set<string>;

  constructor(
    private readonly ids: readonly string[],
    private readonly output: JobsOutput,
    private readonly reporter: Reporter,
  ) {
    this.pending = new Set(ids);
  }

  /**
   * A job as it is now; its line is printed when it has ended.
   * @param explain asks the server why a job has no result
   */
  async saw(job: JobAnswer, explain: (job: JobAnswer) => Promise<JobFailed>): Promise<void> {
    const { job_id, status } = job;
    this.#views.set(job_id, job);
    if (!isFinal(status)) return;
    const failure = status === 'done' ? null : this.output.explain(await explain(job)).error;
    const exit_code = failure?.exit_code ?? exitCodes.done;
    this.#end({ job_id, status, error: failure, exit_code });
    exitWithWorst(exit_code);
    await this.output.print(endLine(job));
  }

  /** A job is not waited for any more. */
  async lost(id: string, error: Error): Promise<void> {
    this.reporter.waiting(null);
    const failure = (await tellFailure(id, error, this.output)).error;
    const status = this.#views.get(id)?.status ?? null;
    this.#end({ job_id: id, status, error: failure, exit_code: failure.exit_code });
  }

  /** None of the others is waited for any more. */
  async lostAll(errorOf: (state: string) => Error): Promise<void> {
    for (const id of this.pending) await this.lost(id, errorOf(this.#views.get(id)?.status ?? 'not known'));
  }

  /** What the others do, in a sentence. */
  get progress(): string {
    const views = [...this.pending].flatMap((id) => this.#views.get(id) ?? []);
    const [only] = views;
    if (only && this.pending.size === 1) return progressOf(only);
    const running = views.filter(({ status }) => status === 'running').length;
    return `Waiting for ${this.pending.size} jobs, of which ${running} run`;
  }

  get summary(): WaitSummary {
    return { jobs: this.ids.flatMap((id) => this.#over.get(id) ?? []) };
  }

  #end(job: WaitedJob): void {
    this.pending.delete(job.job_id);
    this.#over.set(job.job_id, job);
    // What is printed next must not come beside a spinner.
    this.reporter.waiting(null);
  }
}
