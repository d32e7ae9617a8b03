import type { RunEnd, RunRequest } from '../../runner/protocol.js';

/** GPUs that a run was started with. */
export interface HeldGpus {
  /** Ids at that time. */
  readonly gpus: readonly number[];
  readonly gpuUuids: readonly string[];
}

/** How runners are launched, signalled and seen to be alive. Nothing else in the server knows where they run. */
export interface Executor {
  /**
   * Starts a runner on a job directory. A second one on the same directory ends without having run anything.
   * @throws the system's error where none could be started
   */
  launch(directory: string, request: RunRequest): Promise<void>;
  /**
   * Resolves when neither the runner nor any process of the job is left, and not before, whatever cannot be read or
   * has been removed meanwhile. `error` says so where the runner ended without a word. Never rejects.
   */
  wait(directory: string, jobId: string): Promise<RunEnd>;
  /** Asks the runner to end its command; one that does not, for whatever reason, is ended. It need not be there. */
  stop(directory: string): void;
  /** Whether a runner ever took the job; true where that cannot be told, so that no job is run twice. */
  hasStarted(directory: string): boolean;
  /** Whether a runner works on the job; true where that cannot be told. */
  isRunning(directory: string): boolean;
  /** Jobs whose runners work in directories directly below this one. */
  runningUnder(directory: string): readonly { readonly path: string; readonly id: string }[];
  /** GPUs that a run was started with; undefined where that is not told. */
  gpusOf(directory: string): HeldGpus | undefined;
}
