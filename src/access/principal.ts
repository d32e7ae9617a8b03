import { quoteName } from '../contract/index.js';

/** What a token allows: a user's own jobs, or those of all. */
export const roles = ['user', 'admin'] as const;
export type Role = (typeof roles)[number];

/** What an owner may have at most, as the file of the tokens spells it: jobs that are active, GPUs at once, bytes. */
export const limitNames = ['max_jobs', 'max_gpus', 'max_kept', 'max_upload'] as const;
export type LimitName = (typeof limitNames)[number];

/** Limits as the file has them. Null: no limit, whatever the role has; a name that is missing: that of the role. */
export type LimitTable = Readonly<{ [Name in LimitName]?: number | null | undefined }>;

/** A limit, and who set it for whom, in words: `of the role 'user'`. */
export interface Limit {
  readonly most: number;
  readonly whose: string;
}
export type Limits = Readonly<Record<LimitName, Limit | null>>;

export const noLimits: Limits = { max_jobs: null, max_gpus: null, max_kept: null, max_upload: null };

/** The limits of a token: its own ones before those of its role. */
export function limitsFor(
  { name, role, limits }: { readonly name: string; readonly role: Role; readonly limits: LimitTable },
  roles: Readonly<{ [Name in Role]?: LimitTable | undefined }>,
): Limits {
  const find = (limit: LimitName): Limit | null => {
    const own = limits[limit];
    const most = own === undefined ? (roles[role]?.[limit] ?? null) : own;
    if (most === null) return null;
    return {
      most,
      whose: own === undefined ? `of the role ${quoteName(role)}` : `of the token ${quoteName(name)}`,
    };
  };
  return {
    max_jobs: find('max_jobs'),
    max_gpus: find('max_gpus'),
    max_kept: find('max_kept'),
    max_upload: find('max_upload'),
  };
}

/** Who sends a request. */
export interface Principal {
  /** The name of the token; null for the one token of the environment, and for everybody where there is none. */
  readonly name: string | null;
  readonly role: Role;
  readonly limits: Limits;
}

/** Who holds the token of the environment, or reaches a server that asks for none. */
export const theAdmin: Principal = { name: null, role: 'admin', limits: noLimits };

/** Whose a job is: the name of a token, or null for the admin of the environment's token. */
export type Owner = string | null;

/** Whether somebody may see and change what belongs to an owner. */
export const mayReach = ({ name, role }: Principal, owner: Owner): boolean =>
  role === 'admin' || name === owner;

/** An owner inside a sentence. */
export const ownerInWords = (owner: Owner): string => (owner === null ? 'the admin' : `token '${owner}'`);
