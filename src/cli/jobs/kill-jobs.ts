import {
  type Connection,
  type JobAnswer,
  kill,
  jobs as listJobs,
  type Patience,
  untilAnswered,
} from '../../client/connection/index.js';
import { ClientError, UsageError } from '../../client/errors.js';
import type { Reporter } from '../../client/reporter.js';
import { counted, exitCodes, isFinal, type KillReply, quoteName } from '../../contract/index.js';
import { monotonicTime } from '../../files/index.js';
import type { JobsOutput } from '../command/index.js';
import { type JobFailure, tellFailure } from './each-job.js';
import { killedLine, tagged } from './job-text.js';

export interface KillSummary {
  /** One entry for each job, in the order in which they were named. */
  readonly jobs: readonly (KillReply | JobFailure)[];
}

/** Kills one job. The request may be repeated, because killing a job that has ended changes nothing. */
async function killOne(
  connection: Connection,
  id: string,
  timeout: number,
  patience: Patience,
): Promise<KillReply> {
  const deadline = monotonicTime() + timeout * 1000;
  const left = () => deadline - monotonicTime();
  // The last attempt is made when the time is up, so it must be answered quickly.
  const ask = () => kill(connection, id, Math.max(1, left() / 1000));
  const reply = await untilAnswered(connection, patience, ask, left);
  if (isFinal(reply.status)) return reply;
  // The server has given up waiting for the job to end.
  throw new ClientError(`${id} is still ${reply.status}: ${reply.message}`, exitCodes.timedOut, {
    status: reply.status,
  });
}

/**
 * Kills these jobs, all at once. If one cannot be killed, that is reported, and the others are still killed. The exit code is the
 * highest among the jobs.
 * @param timeout seconds for each job
 */
export async function killJobs(
  connection: Connection,
  ids: readonly string[],
  timeout: number,
  reporter: Reporter,
  output: JobsOutput,
): Promise<KillSummary> {
  const patience = connection.patience(reporter);
  const kills = [...new Set(ids)].map((id) => ({
    id,
    end: killOne(connection, id, timeout, patience).catch((error: Error) => error),
  }));
  const jobs: (KillReply | JobFailure)[] = [];
  for (const { id, end } of kills) {
    const reply = await end;
    if (reply instanceof Error) {
      jobs.push(await tellFailure(id, reply, output));
    } else {
      await output.print(killedLine(reply, output.io.colours(output.io.stdout)));
      jobs.push(reply);
    }
  }
  return { jobs };
}

/**
 * The jobs that a command line selects: the named ones, or all active jobs with a tag, of an owner, or of this token.
 * @throws UsageError unless exactly one of these is given
 */
export async function jobsToKill(
  connection: Connection,
  named: readonly string[],
  {
    all,
    tag,
    owner,
  }: { readonly all: boolean; readonly tag?: string | undefined; readonly owner?: string | undefined },
  reporter: Reporter,
): Promise<readonly string[]> {
  const ways = [named.length > 0, all, tag !== undefined, owner !== undefined].filter(Boolean).length;
  if (ways === 0) throw new UsageError('Name the jobs, or give --tag, --owner or --all');
  if (ways > 1) throw new UsageError('Name jobs, or give --tag, --owner or --all: one of these');
  if (named.length > 0) return named;
  const listed = await listJobs(connection, { tag, all: owner !== undefined });
  const isMeant = ({ status, owner: own }: JobAnswer) =>
    !isFinal(status) && (owner === undefined || own === owner);
  const active = listed.filter(isMeant);
  const ids = active.map((job) => job.job_id);
  const { length } = ids;
  const which = owner === undefined ? tagged(tag) : ` of ${quoteName(owner)}`;
  reporter.note(
    length === 0
      ? `No active jobs${which} on ${connection.server}`
      : `Killing ${counted(length, 'job')}${which}`,
  );
  return ids;
}
