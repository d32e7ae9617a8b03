/** What a token allows: a user's own jobs, or those of all. */
export const roles = ['user', 'admin'] as const;
export type Role = (typeof roles)[number];

/** Who sends a request. */
export interface Principal {
  /** The name of the token; null for the one token of the environment, and for everybody where there is none. */
  readonly name: string | null;
  readonly role: Role;
}

/** Who holds the token of the environment, or reaches a server that asks for none. */
export const theAdmin: Principal = { name: null, role: 'admin' };

/** Whose a job is: the name of a token, or null for the admin of the environment's token. */
export type Owner = string | null;

/** Whether somebody may see and change what belongs to an owner. */
export const mayReach = ({ name, role }: Principal, owner: Owner): boolean =>
  role === 'admin' || name === owner;

/** Owners in a sentence. */
export const ownerInWords = (owner: Owner): string => owner ?? 'the admin';
