import type { TokenEntry } from '../../access/token-file.js';
import { formatTable } from '../terminal/format.js';
import { formatDistance, readTime } from '../terminal/time-text.js';

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
    ['NAME', 'ROLE', 'STATE', 'CREATED', 'EXPIRES'],
    tokens.map(({ name, role, state, created_at, expires_at }) => [
      name,
      role,
      state,
      distance(created_at),
      expires_at === null ? 'never' : distance(expires_at),
    ]),
  );
}
