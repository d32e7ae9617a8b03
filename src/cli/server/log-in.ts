import path from 'node:path';
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import {
  type Connection,
  defaultProfile,
  health,
  type Profile,
  readProfile,
  readServerUrl,
  showServerUrl,
  writeProfile,
} from '../../client/connection/index.js';
import { ClientError, HttpError, Interrupted, UsageError } from '../../client/errors.js';
import {
  bareHost,
  defaultServer,
  errorKinds,
  exitCodes,
  isLoopback,
  quoteName,
} from '../../contract/index.js';
import { checkListed } from '../apps/index.js';
import {
  appVariable,
  type ConnectionChoices,
  checkToken,
  resolveSettings,
  type Settings,
  type TypedFlags,
} from '../command/index.js';
import type { CommandIo, InputStream } from '../terminal/index.js';

/** The first line of stdin; empty if there is none. */
async function firstLine(stdin: InputStream): Promise<string> {
  for await (const line of createInterface({ input: stdin })) return line;
  return '';
}

/**
 * Asks for a secret without showing what is typed. If stdin is not a terminal, reads its first line.
 * @throws Interrupted on Ctrl-C
 */
async function readSecret(question: string, io: CommandIo): Promise<string> {
  if (!io.stdin.isTTY) return firstLine(io.stdin);
  io.writeErr(question);
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const prompt = createInterface({ input: io.stdin, output: nowhere, terminal: true });
  try {
    return await new Promise<string>((resolve, reject) => {
      prompt.once('line', resolve);
      prompt.once('SIGINT', () => reject(new Interrupted('SIGINT')));
      prompt.once('close', () => resolve(''));
    });
  } finally {
    prompt.close();
    io.writeErr('\n');
  }
}

interface LoginFlags extends ConnectionChoices {
  readonly app?: string | undefined;
  readonly deidentify?: 'full' | 'names' | 'no' | undefined;
  /** Seconds. */
  readonly timeout: number;
}

export interface Login {
  readonly profile: string;
  readonly server: string;
  /** The file that holds the profile. */
  readonly file: string;
}

/** Whether others on the network could read a token sent to this address (docs/http.md, What the service does). */
function isOpenToTheNetwork(server: string): boolean {
  const { protocol, hostname } = new URL(server);
  return protocol === 'http:' && !isLoopback(bareHost(hostname));
}

const isRefusedToken = (error: unknown): boolean =>
  error instanceof HttpError && error.status === errorKinds.missingToken.status && !error.isOfProxy;

/** The error for a server that needs a token, where none was typed or piped in. */
function noToken(server: string, io: CommandIo): ClientError {
  const message = io.stdin.isTTY
    ? `No token was entered, and ${server} needs one`
    : 'No token on stdin: pipe it in, or give --token-file';
  return new ClientError(message, exitCodes.notAuthorised);
}

/** The profile's previous de-identification mode; undefined for a new profile, and for one that cannot be read. */
function deidentifyBefore(configDir: string, name: string): Profile['deidentify'] {
  try {
    return readProfile(configDir, name)?.deidentify;
  } catch {
    return undefined;
  }
}

/**
 * Checks an address, a token and an app with the server, then saves them as a profile. An empty token is for a server that asks
 * for none.
 */
export async function logIn(
  flags: LoginFlags,
  io: CommandIo,
  configDir: string,
  connect: (settings: Settings) => Promise<Connection>,
  typed: TypedFlags,
): Promise<Login> {
  const server = showServerUrl(readServerUrl(flags.server || defaultServer));
  const given = resolveSettings(flags, null, new Set(typed.has('token') ? ['token'] : [])).token;
  const token = given ?? checkToken(await readSecret(`Token for ${server}: `, io), 'stdin');
  if (token && isOpenToTheNetwork(server)) {
    const { warning } = io.colours();
    io.writeErr(
      `${warning('Warning:')} ${server} is plain HTTP: the token and the volumes travel unencrypted.\n`,
    );
  }
  const none = { deidentify: undefined };
  const ca = flags.ca ? path.resolve(flags.ca) : undefined;
  const connection = await connect({ server, isDefault: !flags.server, token, app: undefined, ca, ...none });
  await health(connection, flags.timeout).catch((error: unknown) => {
    throw token === undefined && isRefusedToken(error) ? noToken(server, io) : error;
  });
  if (flags.app) await checkListed(connection, flags.app, typed.has('app') ? undefined : appVariable);
  const name = flags.profile || defaultProfile;
  // Logging in again must not turn off de-identification.
  const deidentify = flags.deidentify ?? deidentifyBefore(configDir, name);
  const profile = {
    server,
    ...(token ? { token } : {}),
    ...(flags.app ? { app: flags.app } : {}),
    ...(ca ? { ca } : {}),
    ...(deidentify && deidentify !== 'no' ? { deidentify } : {}),
  };
  return { profile: name, server, file: writeProfile(configDir, name, profile) };
}

export interface Logout {
  readonly profile: string;
  readonly server: string;
  /** Whether there was a token to remove. */
  readonly removed: boolean;
}

/**
 * Removes the token from a profile, but keeps its address and app.
 * @throws UsageError for a profile that does not exist
 */
export function logOut(name: string | undefined, configDir: string): Logout {
  const profile = name || defaultProfile;
  const known = readProfile(configDir, profile);
  if (known === null) throw new UsageError(`No profile ${quoteName(profile)}`);
  const { token, ...rest } = known;
  if (token !== undefined) writeProfile(configDir, profile, rest, 'log out again');
  return { profile, server: known.server, removed: token !== undefined };
}
