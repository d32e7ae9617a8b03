import { type LimitName, type LimitTable, limitNames } from '../../access/limits.js';
import type { TokenEntry } from '../../access/token-file.js';
import { formatBytes } from '../../contract/bytes.js';
import { counted } from '../../contract/counted.js';
import { formatTable } from '../terminal/format.js';
import { formatDistance, readTime } from '../terminal/time-text.js';

const inWords: Readonly<Record<LimitName, (most: number) => string>> = {
  max_jobs: (most) => counted(most, 'active job'),
  max_gpus: (most) => counted(most, 'GPU'),
  max_kept: (most) => `${formatBytes(most)} kept`,
  max_upload: (most) => `${formatBytes(most)} an upload`,
};

/** Limits on one line; those that are lifted say so. */
export const limitLine = (limits: LimitTable): string =>
  limitNames
    .flatMap((name) => {
      const most = limits[name];
      if (most === undefined) return [];
      return [most === null ? `${name.replace('_', '-')} none` : inWords[name](most)];
    })
    .join(', ');

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
