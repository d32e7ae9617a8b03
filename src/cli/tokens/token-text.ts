import { type LimitName, type LimitTable, limitNames } from '../../access/limits.js';
import type { TokenEntry } from '../../access/token-file.js';
import { formatBytes } from '../../contract/bytes.js';
import { counted } from '../../contract/counted.js';
import { formatTable } from '../terminal/format.js';
import { formatDistance, readTime } from '../terminal/time-text.js';

const inWords: Readonly<Record<LimitName, (most: number) => string>> = {
  max_jobs: (most) => `at most ${counted(most, 'active job')}`,
  max_gpus: (most) => `at most ${counted(most, 'GPU')}`,
  max_kept: (most) => `at most ${formatBytes(most)} kept`,
  max_upload: (most) => `uploads of at most ${formatBytes(most)}`,
};

/** What a limit is on, where there is none. */
const limited: Readonly<Record<LimitName, string>> = {
  max_jobs: 'active jobs',
  max_gpus: 'GPUs',
  max_kept: 'bytes kept',
  max_upload: 'uploads',
};

/** Limits on one line; those that are lifted say so. */
export const limitLine = (limits: LimitTable): string =>
  limitNames
    .flatMap((name) => {
      const most = limits[name];
      if (most === undefined) return [];
      return [most === null ? `no limit on ${limited[name]}` : inWords[name](most)];
    })
    .join('; ');

/** A token as `token list` prints it: everything but its hash. */
export interface ListedToken extends Omit<TokenEntry, 'hash'> {
  readonly state: 'active' | 'expired' | 'revoked';
}

/** What is shown of an entry. */
export const listedToken = ({ hash: _, ...entry }: TokenEntry, state: ListedToken['state']): ListedToken => ({
  ...entry,
  state,
});

/** Tokens as a table. */
export function tokenTable(tokens: readonly ListedToken[], now = Date.now()): string[] {
  const distance = (iso: string | null) => {
    const at = readTime(iso);
    return at === null ? '' : formatDistance(at, now);
  };
  return formatTable(
    ['NAME', 'ROLE', 'STATE', 'CREATED', 'EXPIRES', 'LIMITS'],
    tokens.map(({ name, role, state, created_at, expires_at, limits }) => [
      name,
      role,
      state,
      distance(created_at),
      expires_at === null ? 'never' : distance(expires_at),
      limitLine(limits),
    ]),
  );
}
