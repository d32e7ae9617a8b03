import type { Connection } from '../../client/connection/index.js';
import { withOriginals } from '../../client/outgoing.js';
import type { Reporter } from '../../client/reporter.js';

export interface LogSummary {
  readonly job_id: string;
  readonly status: 'done' | 'unread';
  readonly lines: number;
}

/**
 * Prints a job's log to its end. If the reader closes the pipe (`| head`), printing stops without an error; an
 * interruption does not kill the job.
 */
export async function followJob(
  connection: Connection,
  jobId: string,
  from: { readonly since: number | undefined; readonly tail: number | undefined },
  reporter: Reporter,
  configDir: string,
): Promise<LogSummary> {
  const [{ followToEnd }, { readNames }] = await Promise.all([
    import('../../client/logs/index.js'),
    import('../../client/case/index.js'),
  ]);
  const originals = readNames(configDir, jobId, connection.server);
  const translate = (text: string) => withOriginals(text, originals);
  try {
    const lines = await followToEnd(connection, jobId, { reporter, translate, ...from });
    return { job_id: jobId, status: lines === null ? 'unread' : 'done', lines: lines ?? 0 };
  } catch (error) {
    if (connection.signal?.aborted)
      reporter.note(`Job ${jobId} goes on; '${connection.nextCommand(`kill ${jobId}`)}' ends it`);
    throw error;
  }
}
