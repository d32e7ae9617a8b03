import {
  type LimitName,
  type LimitTable,
  limitNames,
  type TokenDocument,
  type TokenEntry,
} from '../../access/index.js';
import { counted, formatBytes, type UsageRow } from '../../contract/index.js';
import { lastUse } from '../server/index.js';
import { distanceTo, formatTable } from '../terminal/index.js';

const describeLimit: Readonly<Record<LimitName, (limit: number) => string>> = {
  max_jobs: (limit) => `at most ${counted(limit, 'active job')}`,
  max_gpus: (limit) => `at most ${counted(limit, 'GPU')}`,
  max_kept: (limit) => `at most ${formatBytes(limit)} kept`,
  max_upload: (limit) => `uploads of at most ${formatBytes(limit)}`,
};

/** What each limit restricts, for the text about a lifted one. */
const limited: Readonly<Record<LimitName, string>> = {
  max_jobs: 'active jobs',
  max_gpus: 'GPUs',
  max_kept: 'bytes kept',
  max_upload: 'uploads',
};

/** The limits on one line; removed limits are mentioned as such. */
export const limitLine = (limits: LimitTable): string =>
  limitNames
    .flatMap((name) => {
      const limit = limits[name];
      if (limit === undefined) return [];
      return [limit === null ? `no limit on ${limited[name]}` : describeLimit[name](limit)];
    })
    .join('; ');

/** The limits and the apps of a token on one line; empty if it has none of its own. */
export const allowedLine = ({ limits, apps }: Pick<TokenEntry, 'limits' | 'apps'>): string =>
  [limitLine(limits), apps ? `only ${counted(apps.length, 'app')}: ${apps.join(', ')}` : '']
    .filter(Boolean)
    .join('; ');

/** What the server reports to an admin. */
export interface ToldByServer {
  /** The usage of all owners. */
  readonly usage: readonly UsageRow[];
  /** The limits for everybody; null if the server does not report them. */
  readonly limits: {
    readonly max_jobs: number;
    readonly max_upload_size: number;
    readonly user?: LimitTable | undefined;
  } | null;
}

/** A limit that does not come from the token itself. */
interface InheritedLimit {
  readonly most: number;
  readonly of: 'role' | 'server';
}
type InheritedLimits = Readonly<{ [Name in LimitName]?: InheritedLimit }>;

/**
 * The limits that apply to a token besides its own: those of its role, and those of the server if they are lower or the only
 * ones.
 */
function inheritedBy(
  { role, limits }: TokenEntry,
  roles: TokenDocument['roles'],
  server: ToldByServer['limits'],
): InheritedLimits {
  const ofServer: LimitTable = server
    ? { max_jobs: server.max_jobs, max_upload: server.max_upload_size }
    : {};
  const ofUser: LimitTable = role === 'user' ? (server?.user ?? {}) : {};
  const find = (name: LimitName): InheritedLimit | null => {
    const ofRole = limits[name] === undefined ? (roles[role]?.[name] ?? null) : null;
    const nearest = limits[name] ?? ofRole ?? Number.POSITIVE_INFINITY;
    const isSaid = limits[name] !== undefined || roles[role]?.[name] !== undefined;
    const most = Math.min(
      ...[ofServer[name], isSaid ? null : ofUser[name]].map((each) => each ?? Number.POSITIVE_INFINITY),
    );
    if (most < nearest) return { most, of: 'server' };
    return ofRole === null ? null : { most: ofRole, of: 'role' };
  };
  return Object.fromEntries(
    limitNames.flatMap((name) => {
      const found = find(name);
      return found ? [[name, found]] : [];
    }),
  );
}

/** The heading of the column of a limit: `MAX JOBS`. */
const headingOf = (name: LimitName): string => name.toUpperCase().replace('_', ' ');

/** Limits that are bytes; the others are counts. */
const ofBytes: readonly LimitName[] = ['max_kept', 'max_upload'];

/** A limit as shown in the table; an inherited one is followed by its origin. */
function limitCell({ limits, inherited }: ListedToken, name: LimitName): string {
  const text = ofBytes.includes(name) ? formatBytes : String;
  const from = inherited[name];
  if (from) return `${text(from.most)} (${from.of})`;
  const own = limits[name];
  if (own === undefined) return '';
  return own === null ? 'none' : text(own);
}

/** A token as `token list` prints it: everything but its hash. */
export interface ListedToken extends Omit<TokenEntry, 'hash'> {
  readonly state: 'active' | 'expired' | 'revoked';
  readonly inherited: InheritedLimits;
  /**
   * When a job of its owner last ended (ISO 8601); the current time while a job is active, null if there was none. Absent if no
   * server reported it.
   */
  readonly last_used?: string | null;
  /** Bytes that the jobs of its owner keep on the server. */
  readonly bytes_kept?: number;
}

/**
 * The fields of an entry that are shown.
 * @param told what the server reported; null if no server was asked, or it did not answer
 */
export function listedToken(
  token: TokenEntry,
  state: ListedToken['state'],
  roles: TokenDocument['roles'],
  told: ToldByServer | null,
): ListedToken {
  const { hash: _, ...entry } = token;
  const inherited = inheritedBy(token, roles, told?.limits ?? null);
  if (told === null) return { ...entry, state, inherited };
  const own = told.usage.filter(({ owner }) => owner === entry.name);
  const last_used =
    own
      .map((row) => row.last_used)
      .sort()
      .at(-1) || null;
  const bytes_kept = own.reduce((sum, row) => sum + row.bytes_kept, 0);
  return { ...entry, state, inherited, last_used, bytes_kept };
}

/** Tokens as a table. */
export function tokenTable(tokens: readonly ListedToken[], now = Date.now()): string[] {
  const isUseKnown = tokens.some(({ bytes_kept }) => bytes_kept !== undefined);
  const limits = limitNames.filter((name) => tokens.some((token) => limitCell(token, name) !== ''));
  const haveApps = tokens.some(({ apps }) => apps !== undefined);
  return formatTable(
    [
      ...['NAME', 'ROLE', 'STATE', 'CREATED', 'EXPIRES'],
      ...(isUseKnown ? ['LAST USE', 'KEPT'] : []),
      ...limits.map(headingOf),
      ...(haveApps ? ['APPS'] : []),
    ],
    tokens.map((token) => [
      token.name,
      token.role,
      token.state,
      distanceTo(token.created_at, now),
      token.expires_at === null ? 'never' : distanceTo(token.expires_at, now),
      ...(isUseKnown ? [lastUse(token.last_used, now), formatBytes(token.bytes_kept ?? 0)] : []),
      ...limits.map((name) => limitCell(token, name)),
      ...(haveApps ? [token.apps?.join(', ') ?? 'all'] : []),
    ]),
  );
}
