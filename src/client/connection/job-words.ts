import { counted, maxCounted, oneLine } from '../../contract/index.js';
import type { NextCommands } from '../next-command.js';

/** The known facts about a job that has not ended. */
interface UnfinishedView {
  readonly job_id: string;
  readonly status: string;
  readonly queue_position?: number | null;
  readonly waiting_for?: string | null;
}

/** A sentence about a job that has not ended: it is running, or waiting for something. */
export function progressOf({ job_id, status, queue_position, waiting_for }: UnfinishedView): string {
  const place = queue_position ? `, ${queue_position} in the queue` : '';
  const cause = waiting_for ? ` for ${oneLine(waiting_for)}` : '';
  return `Job ${job_id} is ${status}${cause}${place}; waiting for its end`;
}

/** The number of files that a job left, such as `3 files`. The server stops counting at a limit. */
export const leftText = (count: number): string =>
  `${count < maxCounted ? '' : 'at least '}${counted(count, 'file')}`;

/** The quoted command that fetches the files that a job left. */
export const fetchLeft = (connection: NextCommands, jobId: string): string =>
  `'${connection.nextCommand(`result ${jobId} --partial`)}'`;
