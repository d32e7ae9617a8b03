import type { RunEnd, RunRequest } from '../../runner/protocol.js';

/** How runners are launched, signalled and seen to be alive. Nothing else in the server knows where they run. */
export interface Executor {
  /** Starts a runner on a job directory. A second one on the same directory ends without having run anything. */
  launch(directory: string, request: RunRequest): Promise<void>;
  /** Resolves when no process of the job is left; `error` says so where the runner ended without a word. */
  wait(directory: string, jobId: string): Promise<RunEnd>;
  /** Asks the runner to end its command. It need not be there. */
  stop(directory: string): void;
  /** Whether a runner was ever launched here that took the job. */
  hasStarted(directory: string): boolean;
}
