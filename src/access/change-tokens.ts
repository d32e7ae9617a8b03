import { quoteName, quotePath } from '../contract/index.js';
import { editJsonFile, faultWithoutPath, isSystemError } from '../files/index.js';
import type { LimitTable, Role } from './principal.js';
import {
  hashOf,
  namePattern,
  nameRule,
  noTokens,
  placeOf,
  readTokens,
  stateOf,
  type TokenDocument,
  type TokenEntry,
  TokenFileError,
} from './token-file.js';

/** A change to the tokens that cannot be made as requested. */
export class TokenChangeError extends Error {
  override readonly name = 'TokenChangeError';
}

const now = (): string => new Date().toISOString();

function indexOf(document: TokenDocument, name: string): number {
  const index = placeOf(document, name);
  if (index < 0) {
    throw new TokenChangeError(
      `There is no token named ${quoteName(name)}; 'token list' shows those there are`,
    );
  }
  return index;
}

/** Returns the document with one entry changed. */
function changed(document: TokenDocument, name: string, change: (entry: TokenEntry) => TokenEntry) {
  const index = indexOf(document, name);
  return {
    ...document,
    tokens: document.tokens.map((entry, at) => (at === index ? change(entry) : entry)),
  };
}

/**
 * Adds a token.
 * @param expires ISO 8601; null for never
 * @throws TokenChangeError for a name that is taken, even by a revoked token, because its owner's jobs still carry it
 */
export function withToken(
  document: TokenDocument,
  {
    name,
    role,
    expires,
    token,
    limits = {},
    apps = null,
  }: {
    name: string;
    role: Role;
    expires: string | null;
    token: string;
    limits?: LimitTable;
    /** Ids of the apps that its owner may use; null for all. */
    apps?: readonly string[] | null;
  },
): TokenDocument {
  if (!namePattern.test(name)) {
    throw new TokenChangeError(`A token's name is ${nameRule}; got ${quoteName(name)}`);
  }
  const taken = document.tokens[placeOf(document, name)];
  if (taken) {
    const why = stateOf(taken) === 'revoked' ? 'was revoked, and its jobs keep its name' : 'already exists';
    throw new TokenChangeError(
      `The token ${quoteName(taken.name)} ${why}; 'token rotate ${taken.name}' gives the same person a new one`,
    );
  }
  const entry = {
    name,
    role,
    hash: hashOf(token),
    created_at: now(),
    expires_at: expires,
    revoked_at: null,
    limits,
    ...(apps && { apps: [...apps] }),
  };
  return { ...document, tokens: [...document.tokens, entry] };
}

/** Revokes a token. @throws TokenChangeError for an unknown name */
export const withoutToken = (document: TokenDocument, name: string): TokenDocument =>
  changed(document, name, (entry) => ({ ...entry, hash: null, revoked_at: entry.revoked_at ?? now() }));

/** Changes the given limits of a token and leaves its other limits unchanged. @throws TokenChangeError for an unknown name */
export const withLimits = (document: TokenDocument, name: string, limits: LimitTable): TokenDocument =>
  changed(document, name, (entry) => ({ ...entry, limits: { ...entry.limits, ...limits } }));

/** Sets the apps that a token may use; null for all. @throws TokenChangeError for an unknown name */
export const withApps = (
  document: TokenDocument,
  name: string,
  ids: readonly string[] | null,
): TokenDocument =>
  changed(document, name, ({ apps: _, ...entry }) => (ids === null ? entry : { ...entry, apps: [...ids] }));

/** Changes the given limits of a role and leaves its other limits unchanged. */
export const withRoleLimits = (document: TokenDocument, role: Role, limits: LimitTable): TokenDocument => ({
  ...document,
  roles: { ...document.roles, [role]: { ...document.roles[role], ...limits } },
});

/**
 * Replaces a token with a new one that has the same name and therefore the same jobs. Also works for a revoked token, and for an
 * expired one that gets a new expiry time.
 * @param expires undefined leaves the expiry time unchanged
 * @throws TokenChangeError for an unknown name, or a time in the past
 */
export const withNewSecret = (
  document: TokenDocument,
  name: string,
  token: string,
  expires: string | null | undefined,
): TokenDocument =>
  changed(document, name, (entry) => {
    const expiresAt = expires === undefined ? entry.expires_at : expires;
    const next = { ...entry, hash: hashOf(token), expires_at: expiresAt, revoked_at: null };
    if (stateOf(next) === 'expired') {
      throw new TokenChangeError(
        `The token ${quoteName(entry.name)} expired at ${expiresAt}; say how long the new one is valid: --expires 90d, or --expires never`,
      );
    }
    return next;
  });

/**
 * Changes the token file, or creates it if it does not exist. A server that reads the file meanwhile gets either the old or the
 * new tokens. If two commands change it at the same time, one waits. The file keeps its owner and mode.
 * @param change returns the new content, given the current one; may throw
 * @throws TokenFileError, or what `change` throws
 */
export function editTokens(given: string, change: (before: TokenDocument) => TokenDocument): void {
  try {
    const edit = (file: string | null) => change(file === null ? noTokens : readTokens(file));
    const outcome = editJsonFile(given, edit, { keepsAccess: true });
    if (outcome === 'taken') {
      throw new TokenFileError(`Another command is changing ${quotePath(given)}; try again`);
    }
    if (outcome === 'replaced') {
      throw new TokenFileError(`${quotePath(given)} was replaced again and again; try again`);
    }
  } catch (cause) {
    if (!isSystemError(cause)) throw cause;
    const remedy = 'it needs a directory that you may write to';
    throw new TokenFileError(
      `The tokens in ${quotePath(given)} cannot be changed: ${faultWithoutPath(cause)}; ${remedy}`,
      { cause },
    );
  }
}
