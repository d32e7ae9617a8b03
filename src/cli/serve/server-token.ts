import { statSync } from 'node:fs';
import { UsageError } from '../../client/errors.js';
import { quotePath } from '../../contract/index.js';
import { faultWithoutPath, readSmallFile } from '../../files/index.js';
import { checkToken } from '../settings.js';

/** Permissions that no secret may have: any for others, and for its group all but to read. */
const open = { forOthers: 0o007, forGroup: 0o070, forGroupToWrite: 0o030 };

/**
 * Checks that only this user and root can read a file. Root's own file may be read by its group as well: packages give a
 * service its secrets like that.
 * @throws UsageError
 */
function checkSecrecy(file: string): void {
  const { uid, mode } = statSync(file);
  const advice = `run chmod 600 ${quotePath(file)}, and give the server another token`;
  if (uid !== 0 && uid !== process.getuid?.()) {
    throw new UsageError(
      `The token file ${quotePath(file)} belongs to another user, who can change it: give it to the user of the server`,
    );
  }
  const forbidden = open.forOthers | (uid === 0 ? open.forGroupToWrite : open.forGroup);
  if ((mode & forbidden) !== 0) {
    throw new UsageError(`Others than its owner can read the token file ${quotePath(file)}: ${advice}`);
  }
}

/** Where a token may come from, for advice. */
const example = "such as that of 'openssl rand -hex 32'";

/** @throws UsageError */
function tokenOf(file: string): string {
  try {
    checkSecrecy(file);
    const token = checkToken(readSmallFile(file), file);
    if (token !== undefined) return token;
  } catch (cause) {
    if (cause instanceof UsageError) throw cause;
    throw new UsageError(`The token file ${quotePath(file)} cannot be read: ${faultWithoutPath(cause)}`, {
      cause,
    });
  }
  throw new UsageError(`The token file ${quotePath(file)} is empty: write a token into it, ${example}`);
}

/** @throws UsageError for a token that no request can carry */
function tokenIn(environment: NodeJS.ProcessEnv, variable: string): string | null {
  const text = environment[variable] ?? '';
  if (text === '') return null;
  const token = checkToken(text, variable);
  if (token !== undefined) return token;
  throw new UsageError(`${variable} is blank: set it to a token, ${example}, or unset it`);
}

export interface TokenChoices {
  readonly auth: 'bearer' | 'required' | 'off';
  readonly 'token-file'?: string | undefined;
  readonly 'token-env': string;
}

/**
 * The token that opens everything. A file comes before the environment.
 * @returns null if there is none
 * @throws UsageError for a file that others can read, and for a text that is not a token
 */
export function serverToken(
  { auth, 'token-file': file, 'token-env': variable }: TokenChoices,
  environment: NodeJS.ProcessEnv,
): string | null {
  if (auth === 'off') return null;
  return file === undefined ? tokenIn(environment, variable) : tokenOf(file);
}

/** @throws UsageError if there must be a token and there is none */
export function requireSomeToken({ auth, 'token-env': variable }: TokenChoices, hasToken: boolean): void {
  if (auth !== 'required' || hasToken) return;
  throw new UsageError(
    `--auth required, and there is no token: name a file with --token-file or --tokens, or set ${variable}`,
  );
}
