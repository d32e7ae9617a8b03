import { createHash, randomBytes } from 'node:crypto';
import { closeSync, constants, fstatSync, openSync, readFileSync, type Stats, statSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { oneLine, quoteName, quotePath } from '../contract/index.js';
import { decodedText, faultWithoutPath } from '../files/index.js';
import { roles } from './principal.js';

/** Prefix of every token, by which secret scanners recognise leaked ones. */
const mark = 'ra_';

/** A new token: 256 random bits, in characters that need no quotes in a shell or a header. */
export const newToken = (): string => `${mark}${randomBytes(32).toString('base64url')}`;

/**
 * The hash that is stored instead of a token. A plain SHA-256 is enough: nobody can try all values of 256 random bits, so
 * a hash that is slow on purpose, as for passwords that people choose, would only make each request slower.
 */
export const hashOf = (token: string): string => `sha256:${createHash('sha256').update(token).digest('hex')}`;

/** What a stored hash looks like. */
const hashPattern = /^sha256:[0-9a-f]{64}$/;

/** The token file, or its directory, can be changed by others. The message says how to fix that. */
class UnsafeFile extends Error {
  override readonly name = 'UnsafeFile';
}

const othersWrite = 0o022;
const sticky = 0o1000;

/** Checks that a file or directory belongs to this user or to root. @throws UnsafeFile otherwise */
function checkOwner({ uid }: Stats, name: string): void {
  const own = process.getuid?.();
  if (own === undefined || uid === own || uid === 0) return;
  throw new UnsafeFile(
    `${quotePath(name)} belongs to another user (uid ${uid}), who could change it; give it to root or to the user of the server`,
  );
}

/**
 * Refuses a file that somebody other than root and this user could write to or replace, judging by the owner and mode of the file
 * and its directory. A directory with the sticky bit, such as /tmp, is accepted, because nobody can replace other users' files in
 * it.
 * @param stats of the open file
 * @throws UnsafeFile
 */
function refuseUnsafe(file: string, stats: Stats): void {
  // Windows has no such modes.
  if (process.platform === 'win32') return;
  const directory = path.dirname(path.resolve(file));
  const above = statSync(directory);
  checkOwner(stats, file);
  checkOwner(above, directory);
  const open: string[] = [];
  if (stats.mode & othersWrite) open.push(file);
  if (above.mode & othersWrite && !(above.mode & sticky)) open.push(directory);
  const [first] = open;
  if (first === undefined) return;
  throw new UnsafeFile(`${quotePath(first)} can be written by others; run 'chmod go-w ${first}'`);
}

/** Version of the file format that this program writes. */
const currentVersion = 1;
/** Maximum size in bytes of a file that is read: some 50,000 tokens. */
const maxBytes = 16 << 20;

/** The characters allowed in a name, chosen so that it can appear in records, logs and commands without quotes. */
export const namePattern = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$/;
export const nameRule = 'up to 64 letters, digits and . _ @ -, beginning with a letter or a digit';

const time = z.iso.datetime();
const count = z.int().min(0).nullable();
/** Limits by name; `principal.ts` explains them. */
const limitTable = z
  .strictObject({ max_jobs: count, max_gpus: count, max_kept: count, max_upload: count })
  .partial();
const tokenEntry = z.strictObject({
  name: z.string().regex(namePattern, `must be ${nameRule}`),
  role: z.enum(roles),
  /** Null once the token is revoked. Its name remains, so that nobody else gets its owner's jobs. */
  hash: z.string().regex(hashPattern, 'must be sha256: and 64 hexadecimal digits').nullable(),
  created_at: time,
  expires_at: time.nullable().default(null),
  revoked_at: time.nullable().default(null),
  limits: limitTable.default({}),
  /** Ids of the apps that the token may use; missing for all. */
  apps: z.array(z.string().min(1)).min(1).optional(),
});
const tokenDocument = z.strictObject({
  version: z.literal(currentVersion),
  /** Limits for everybody with a role, unless their own token sets other limits. */
  roles: z.strictObject({ user: limitTable, admin: limitTable }).partial().default({}),
  tokens: z.array(tokenEntry),
});

export type TokenDocument = z.infer<typeof tokenDocument>;
/** A named token, as stored in the file. */
export type TokenEntry = TokenDocument['tokens'][number];

export const noTokens: TokenDocument = { version: currentVersion, roles: {}, tokens: [] };

/** The token file cannot be used. The message names the file and the reason. */
export class TokenFileError extends Error {
  override readonly name = 'TokenFileError';
}

/** The first value that occurs twice; undefined if none does. */
function firstRepeated(texts: readonly string[]): string | undefined {
  const seen = new Set<string>();
  return texts.find((text) => seen.size === seen.add(text).size);
}

/** Parses the content of a token file. @throws Error with a message that quotes nothing from the file except names */
function parseTokens(text: string): TokenDocument {
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
  // To a person, two names that differ only in case are the same name.
  const twice = firstRepeated(tokens.map(({ name }) => name.toLowerCase()));
  if (twice !== undefined) throw new Error(`there are two tokens named ${quoteName(twice)}`);
  if (firstRepeated(tokens.flatMap(({ hash }) => hash ?? [])) !== undefined)
    throw new Error('two tokens have one hash');
  return parsed.data;
}

/** Opens the token file. `O_NONBLOCK` keeps the open from blocking on a FIFO. */
const openTokens = (file: string): number => openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);

/**
 * Reads the token file.
 * @throws TokenFileError also if others can write to it
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

/** The index of a named token in the file, -1 if there is none. Case is ignored. */
export const placeOf = ({ tokens }: TokenDocument, name: string): number =>
  tokens.findIndex((each) => each.name.toLowerCase() === name.toLowerCase());

/** Whether this entry's token is accepted now, and if not, why. */
export function stateOf(
  { hash, expires_at, revoked_at }: TokenEntry,
  now = Date.now(),
): 'active' | 'expired' | 'revoked' {
  if (hash === null || revoked_at !== null) return 'revoked';
  return expires_at !== null && Date.parse(expires_at) <= now ? 'expired' : 'active';
}
