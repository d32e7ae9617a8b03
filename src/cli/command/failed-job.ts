import type { JobFailed } from '../../client/errors.js';
import { nextCommand } from '../../client/next-command.js';
import { counted, mostCounted } from '../../contract/index.js';
import { formatDistance, formatTime } from '../terminal/index.js';

/** Until when a job is kept, by the server's clock; null if the server does not say. */
export function keptUntil(expiresAt: string | null, now: number): string | null {
  return formatTime(expiresAt, (time) => formatDistance(time, now));
}

/** How many files a job left, such as `3 files`. The server stops counting at a limit. */
export const leftText = (count: number): string =>
  `${count < mostCounted ? '' : 'at least '}${counted(count, 'file')}`;

/** The quoted command that fetches the files that a job left. */
export const fetchLeft = (jobId: string): string => `'${nextCommand(`result ${jobId} --partial`)}'`;

/** Hints that follow the error of a failed job. */
export function hintsOfFailed({ jobId, facts }: JobFailed): string[] {
  const { expiresAt, leftFiles, now } = facts;
  const until = keptUntil(expiresAt, now);
  return [
    ...(leftFiles
      ? [
          `Job ${jobId} left ${leftText(leftFiles)}; ${fetchLeft(jobId)} fetches ${leftFiles === 1 ? 'it' : 'them'}`,
        ]
      : []),
    ...(until === null ? [] : [`Job ${jobId} is kept until ${until}`]),
  ];
}
