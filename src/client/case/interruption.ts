import type { Connection } from '../connection/index.js';

/**
 * Waits for a step of a job. If the command is interrupted in the meantime, `onInterrupt` decides what happens to the job.
 * @param onInterrupt gets the reason of the interruption, and returns the error to throw
 */
export async function unlessInterrupted<T>(
  { signal }: Connection,
  wait: () => Promise<T>,
  onInterrupt: (reason: unknown) => Promise<unknown>,
): Promise<T> {
  try {
    signal?.throwIfAborted();
    return await wait();
  } catch (error) {
    throw signal?.aborted ? await onInterrupt(signal.reason) : error;
  }
}
