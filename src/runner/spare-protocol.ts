/** How a server and a runner talk that was started before there is a job for it. */

/** Stands in the place of the job directory for a runner that is started before there is a job for it: a spare one. */
export const spareArgument = '--spare';

/** The descriptor by which the server and its spare runner talk, a line of JSON each time. */
export const spareChannel = 3;

/** What the server tells its spare runner: first where it may prepare, then which job it is to run. */
export interface SpareMessage {
  /** A directory of its own, which does not exist yet, on the file system of the jobs. */
  readonly place?: string;
  /** The job's directory. */
  readonly job?: string;
}

/** What a spare runner answers when it has claimed its job. */
export const spareTaken = 'taken';

/** What it says when the job is over and it is ready for another one, if it still has its channel then. */
export const spareReady = 'ready';
