import { type Limits, noLimits } from './limits.js';
import type { Role } from './roles.js';

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
