import type { JobFailed } from '../../client/errors.js';
import { nextCommand } from '../../client/next-command.js';
import { counted, mostCounted } from '../../contract/index.js';
import { formatDistance, formatTime } from '../terminal/index.js';

/** Until when a job is kept, in words, by the clock of its server; null if the server does not say. */
export function keptUntil(expiresAt: string | null, now: number): string | null {
  return formatTime(expiresAt, (time) => formatDistance(time, now));
}

/** How many files a job left, of a count that ends somewhere: `3 files`. */
export const leftText = (count: number): string =>
  `${count < mostCounted ? '' : 'at least '}${counted(count, 'file')}`;

/** The command that fetches what a job left, in a sentence. */
export const fetchLeft = (jobId: string): string => `'${nextCommand(`result ${jobId} --partial`)}'`;

/** What a person can still do about a job that failed, below its error. */
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
