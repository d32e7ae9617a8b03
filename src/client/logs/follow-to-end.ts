import { killErrors } from '../../contract/job.js';
import { servicePrefix } from '../../contract/log-stream.js';
import { job } from '../connection/api.js';
import type { Connection } from '../connection/connection.js';
import { JobFailed, leaving } from '../errors.js';
import type { Reporter } from '../reporter.js';
import { followLog } from './log-stream.js';

/** The errors of jobs that somebody killed. */
const errorsOfKilled: readonly string[] = Object.values(killErrors);

/**
 * The facts in a failed job's error. Its state is asked from the server; one that was stopped does not answer any more, and
 * the message says enough then.
 */
async function failureOf(connection: Connection, jobId: string, message: string): Promise<JobFailed> {
  const view = await job(connection, jobId).catch(() => null);
  const isKilled = view ? view.status === 'killed' : errorsOfKilled.includes(message);
  return new JobFailed(jobId, isKilled ? 'killed' : 'error', view?.error ?? message);
}

/**
 * Follows a job's log to its end.
 * @returns the number of lines; null if the reader of the output has left
 * @throws JobFailed for a job that failed or was killed; GaveUp if the server is gone for too long
 */
export async function followToEnd(
  connection: Connection,
  jobId: string,
  options: { reporter: Reporter; since?: number | undefined; persistent?: boolean; readOn?: boolean },
): Promise<number | null> {
  const { reporter } = options;
  let lines = 0;
  let pending: string | null = null;
  const waitFor = (what: string | null) => {
    pending = what;
    reporter.waiting(what);
  };
  const patience = connection.patience({
    note: (text) => reporter.note(text),
    // After an outage the job is waited for again.
    waiting: (outage) => reporter.waiting(outage ?? pending),
  });
  waitFor(`Waiting for job ${jobId}`);
  try {
    const events = followLog(connection, jobId, {
      since: options.since,
      persistent: options.persistent,
      patience,
    });
    for await (const event of events) {
      if (event.kind === 'error') throw await failureOf(connection, jobId, event.message);
      if (event.kind === 'done') break;
      lines += 1;
      // The service's own lines are about the queue: the wait is over with the app's first line.
      if (event.line.startsWith(servicePrefix)) waitFor(event.line.slice(servicePrefix.length));
      else waitFor(null);
      if (!(await reporter.line(event.line)) && !options.readOn) return null;
    }
    return lines;
  } catch (error) {
    throw connection.isMet ? leaving(jobId, error) : error;
  } finally {
    waitFor(null);
  }
}
