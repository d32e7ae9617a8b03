import type { Connection } from '../client/connection/connection.js';
import type { KillReply } from '../contract/job.js';

export interface KillSummary {
  readonly jobs: readonly KillReply[];
}

/**
 * Kills these jobs. If one of them cannot be killed, the others still are.
 * @param timeout seconds for each
 * @throws the first error, after all were tried
 */
export async function killJobs(
  connection: Connection,
  ids: readonly string[],
  timeout: number,
): Promise<KillSummary> {
  const { kill } = await import('../client/connection/api.js');
  const ends = await Promise.allSettled(ids.map((id) => kill(connection, id, timeout)));
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
  return { jobs: ends.flatMap((end) => (end.status === 'fulfilled' ? [end.value] : [])) };
}
