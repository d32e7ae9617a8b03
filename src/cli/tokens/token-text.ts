import { type LimitName, type LimitTable, limitNames, type TokenEntry } from '../../access/index.js';
import { counted, formatBytes, type UsageRow } from '../../contract/index.js';
import { lastUse } from '../server/index.js';
import { formatDistance, formatTable, readTime } from '../terminal/index.js';

const describeLimit: Readonly<Record<LimitName, (most: number) => string>> = {
  max_jobs: (most) => `at most ${counted(most, 'active job')}`,
  max_gpus: (most) => `at most ${counted(most, 'GPU')}`,
  max_kept: (most) => `at most ${formatBytes(most)} kept`,
  max_upload: (most) => `uploads of at most ${formatBytes(most)}`,
};

/** What each limit restricts, for the text about a lifted one. */
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
      return [most === null ? `no limit on ${limited[name]}` : describeLimit[name](most)];
    })
    .join('; ');

/** A token as `token list` prints it: everything but its hash. */
export interface ListedToken extends Omit<TokenEntry, 'hash'> {
  readonly state: 'active' | 'expired' | 'revoked';
  /**
   * When a job of its owner last ended (ISO 8601); now while one is active, null if there was none. Absent if no server
   * reported it.
   */
  readonly last_used?: string | null;
  /** Bytes that the jobs of its owner keep on the server. */
  readonly bytes_kept?: number;
}

/**
 * The part of an entry that is shown.
 * @param usage the usage of all owners; null if no server reported it
 */
export function listedToken(
  { hash: _, ...entry }: TokenEntry,
  state: ListedToken['state'],
  usage: readonly UsageRow[] | null,
): ListedToken {
  if (usage === null) return { ...entry, state };
  const own = usage.filter(({ owner }) => owner === entry.name);
  const last_used =
    own
      .map((row) => row.last_used ?? '')
      .sort()
      .at(-1) || null;
  const bytes_kept = own.reduce((sum, row) => sum + (row.bytes_kept ?? 0), 0);
  return { ...entry, state, last_used, bytes_kept };
}

/** Tokens as a table. */
export function tokenTable(tokens: readonly ListedToken[], now = Date.now()): string[] {
  const distance = (iso: string | null) => {
    const at = readTime(iso);
    return at === null ? '' : formatDistance(at, now);
  };
  const isUseKnown = tokens.some(({ bytes_kept }) => bytes_kept !== undefined);
  return formatTable(
    ['NAME', 'ROLE', 'STATE', 'CREATED', 'EXPIRES', ...(isUseKnown ? ['LAST USE', 'KEPT'] : []), 'LIMITS'],
    tokens.map(({ name, role, state, created_at, expires_at, limits, last_used, bytes_kept }) => [
      name,
      role,
      state,
      distance(created_at),
      expires_at === null ? 'never' : distance(expires_at),
      ...(isUseKnown ? [lastUse(last_used, now), formatBytes(bytes_kept ?? 0)] : []),
      limitLine(limits),
    ]),
  );
}
