import { leftText } from '../../client/connection/index.js';
import type { JobFailed } from '../../client/errors.js';
import { formatDistance, formatTime } from '../terminal/index.js';

/** Until when a job is kept, by the server's clock; null if the server does not say. */
export function keptUntil(expiresAt: string | null, now: number): string | null {
  return formatTime(expiresAt, (time) => formatDistance(time, now));
}

/** Hints that follow the error of a failed job. */
export function hintsOfFailed({ jobId, facts }: JobFailed): string[] {
  const { expiresAt, leftFiles, now, fetch } = facts;
  const until = keptUntil(expiresAt, now);
  return [
    ...(leftFiles
      ? [`Job ${jobId} left ${leftText(leftFiles)}; ${fetch} fetches ${leftFiles === 1 ? 'it' : 'them'}`]
      : []),
    ...(until === null ? [] : [`Job ${jobId} is kept until ${until}`]),
  ];
}
