import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { z } from 'zod';
import { oneLine, quoteName, quotePath } from '../contract/quote.js';
import { faultWithoutPath } from '../files/error-code.js';
import { decodedText } from '../files/small-file.js';
import { roles } from './roles.js';
import { refuseUnsafe, UnsafeFile } from './safe-file.js';
import { hashPattern } from './secret.js';

/** Version of the file that this program writes. */
const currentVersion = 1;
/** Longest file that is read, in bytes: some 50,000 tokens. */
const maxBytes = 16 << 20;

/** What a name is made of: it stands in records, logs and commands without quotes. */
export const namePattern = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$/;
export const nameRule = 'up to 64 letters, digits and . _ @ -, beginning with a letter or a digit';

/** Made when a file is read: a server without named tokens starts 3 ms sooner. */
const tokenDocument = z.lazy(() => {
  const time = z.iso.datetime();
  const count = z.int().min(0).nullable();
  // Limits by name; `limits.ts` says what they mean.
  const limitTable = z
    .strictObject({ max_jobs: count, max_gpus: count, max_kept: count, max_upload: count })
    .partial();
  const tokenEntry = z.strictObject({
    name: z.string().regex(namePattern, `must be ${nameRule}`),
    role: z.enum(roles),
    /** Null once it is revoked: the name stays, so that nobody else gets the jobs of its owner. */
    hash: z.string().regex(hashPattern, 'must be sha256: and 64 hexadecimal digits').nullable(),
    created_at: time,
    expires_at: time.nullable().default(null),
    revoked_at: time.nullable().default(null),
    limits: limitTable.default({}),
  });
  return z.strictObject({
    version: z.literal(currentVersion),
    /** Limits of all who have a role, unless their token has its own. */
    roles: z.strictObject({ user: limitTable, admin: limitTable }).partial().default({}),
    tokens: z.array(tokenEntry),
  });
});

export type TokenDocument = z.infer<typeof tokenDocument>;
/** One named token, as the file has it. */
export type TokenEntry = TokenDocument['tokens'][number];

export const noTokens: TokenDocument = { version: currentVersion, roles: {}, tokens: [] };

/** The file of the tokens cannot be used. The message names it, and says why. */
export class TokenFileError extends Error {
  override readonly name = 'TokenFileError';
}

/** The first thing that stands twice; undefined if nothing does. */
const repeated = (texts: readonly string[]): string | undefined =>
  texts.find((text, index) => texts.indexOf(text, index + 1) >= 0);

function firstRepeated(texts: readonly string[]): string | undefined {
  return new Set(texts).size === texts.length ? undefined : repeated(texts);
}

/** @throws Error in words that quote nothing of the file but names */
export function parseTokens(text: string): TokenDocument {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    // The message of JSON.parse quotes the file.
    throw new Error(text.trim() === '' ? 'it is empty' : 'it is not JSON');
  }
  const parsed = tokenDocument.safeParse(json);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new Error(`${issue?.path.join('.') || 'the file'}: ${oneLine(issue?.message ?? '')}`);
  }
  const { tokens } = parsed.data;
  // Two names that differ by case alone are one name to a person.
  const twice = firstRepeated(tokens.map(({ name }) => name.toLowerCase()));
  if (twice !== undefined) throw new Error(`there are two tokens named ${quoteName(twice)}`);
  if (firstRepeated(tokens.flatMap(({ hash }) => hash ?? [])) !== undefined)
    throw new Error('two tokens have one hash');
  return parsed.data;
}

/** Opens it without waiting at a pipe. */
const openTokens = (file: string): number => openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);

/**
 * Reads the file, unless others can write it.
 * @throws TokenFileError
 */
export function readTokens(file: string): TokenDocument {
  try {
    const descriptor = openTokens(file);
    try {
      const stats = fstatSync(descriptor);
      if (!stats.isFile()) throw new Error('it is not a regular file');
      refuseUnsafe(file, stats);
      if (stats.size > maxBytes) throw new Error(`it is longer than ${maxBytes >> 20} MiB`);
      return parseTokens(decodedText(readFileSync(descriptor)));
    } finally {
      closeSync(descriptor);
    }
  } catch (cause) {
    const why = cause instanceof UnsafeFile ? cause.message : faultWithoutPath(cause);
    throw new TokenFileError(`The tokens in ${quotePath(file)} cannot be used: ${why}`, { cause });
  }
}

/** The place of a token in the file, -1 if it is not there. Two names that differ by case alone are one name to a person. */
export const placeOf = ({ tokens }: TokenDocument, name: string): number =>
  tokens.findIndex((each) => each.name.toLowerCase() === name.toLowerCase());

/** Whether a token of this entry lets in now, and if not, why. */
export function stateOf(
  { hash, expires_at, revoked_at }: TokenEntry,
  now = Date.now(),
): 'active' | 'expired' | 'revoked' {
  if (hash === null || revoked_at !== null) return 'revoked';
  return expires_at !== null && Date.parse(expires_at) <= now ? 'expired' : 'active';
}
