import { quoteName } from '../contract/index.js';

/** What a token gives access to: a user's own jobs, or everybody's. */
export const roles = ['user', 'admin'] as const;
export type Role = (typeof roles)[number];

/** An owner's limits, under their names in the token file: active jobs, GPUs in use at once, bytes kept, bytes of one upload. */
export const limitNames = ['max_jobs', 'max_gpus', 'max_kept', 'max_upload'] as const;
export type LimitName = (typeof limitNames)[number];

/** Limits as written in the token file. Null lifts the role's limit; if a name is missing, the role's limit applies. */
export type LimitTable = Readonly<{ [Name in LimitName]?: number | null | undefined }>;

/** A limit, and a phrase that says whose it is: `of the role 'user'`. */
export interface Limit {
  readonly max: number;
  readonly whose: string;
}
export type Limits = Readonly<Record<LimitName, Limit | null>>;

export const noLimits: Limits = { max_jobs: null, max_gpus: null, max_kept: null, max_upload: null };

/** The limits of a token: its own take precedence over those of its role. */
export function limitsFor(
  { name, role, limits }: { readonly name: string; readonly role: Role; readonly limits: LimitTable },
  roles: Readonly<{ [Name in Role]?: LimitTable | undefined }>,
): Limits {
  const find = (limit: LimitName): Limit | null => {
    const own = limits[limit];
    const max = own === undefined ? (roles[role]?.[limit] ?? null) : own;
    if (max === null) return null;
    return {
      max,
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
  /** The name of the token. Null for the environment's token, and for everybody if no token is required. */
  readonly name: string | null;
  readonly role: Role;
  readonly limits: Limits;
  /** Ids of the apps that the sender may use; null for all apps of the server. */
  readonly apps: readonly string[] | null;
}

/** The holder of the environment's token, or anybody on a server that requires no token. */
export const theAdmin: Principal = { name: null, role: 'admin', limits: noLimits, apps: null };

/** The owner of a job: the name of a token, or null for the admin of the environment's token. */
export type Owner = string | null;

/** Whether a principal may see and change what an owner has. */
export const mayReach = ({ name, role }: Principal, owner: Owner): boolean =>
  role === 'admin' || name === owner;

/** How a sentence refers to an owner. */
export const ownerInWords = (owner: Owner): string => (owner === null ? 'the admin' : `token '${owner}'`);
