import path from 'node:path';
import {
  type Connection,
  defaultProfile,
  readProfile,
  readServerUrl,
  showServerUrl,
  writeProfile,
} from '../client/connection/index.js';
import { UsageError } from '../client/errors.js';
import { bareHost, defaultServer, isLoopback, quoteName } from '../contract/index.js';
import {
  type ConnectionChoices,
  checkToken,
  resolveSettings,
  type Settings,
  type TypedFlags,
} from './settings.js';
import { Colours } from './terminal/colours.js';
import { readSecret } from './terminal/prompt.js';
import { writeErr } from './terminal/standard-streams.js';

export interface LoginFlags extends ConnectionChoices {
  readonly app?: string | undefined;
  /** Seconds. */
  readonly timeout: number;
}

export interface Login {
  readonly profile: string;
  readonly server: string;
  /** Where the profile is. */
  readonly file: string;
}

/** Whether a token sent to this address could be read on the way (spec.md, What the service does). */
function isOpenToTheNetwork(server: string): boolean {
  const { protocol, hostname } = new URL(server);
  return protocol === 'http:' && !isLoopback(bareHost(hostname));
}

/**
 * Checks an address and a token with the server, then saves them as a profile. An empty token is for a server that asks
 * for none.
 */
export async function logIn(
  flags: LoginFlags,
  configDir: string,
  connect: (settings: Settings) => Promise<Connection>,
  typed: TypedFlags,
): Promise<Login> {
  const server = showServerUrl(readServerUrl(flags.server || defaultServer));
  const given = resolveSettings(flags, null, new Set(typed.has('token') ? ['token'] : [])).token;
  const token = given ?? checkToken(await readSecret(`Token for ${server}: `), 'stdin');
  if (token && isOpenToTheNetwork(server)) {
    const { warning } = new Colours(process.stderr);
    writeErr(
      `${warning('Warning:')} ${server} is plain HTTP: the token and the volumes travel unencrypted.\n`,
    );
  }
  const ca = flags.ca ? path.resolve(flags.ca) : undefined;
  const connection = await connect({ server, isDefault: !flags.server, token, app: undefined, ca });
  const { health } = await import('../client/connection/index.js');
  await health(connection, flags.timeout);
  const name = flags.profile || defaultProfile;
  const profile = {
    server,
    ...(token ? { token } : {}),
    ...(flags.app ? { app: flags.app } : {}),
    ...(ca ? { ca } : {}),
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
 * Removes the token from a profile, whose address and app stay.
 * @throws UsageError for a profile that is not there
 */
export function logOut(name: string | undefined, configDir: string): Logout {
  const profile = name || defaultProfile;
  const known = readProfile(configDir, profile);
  if (known === null) throw new UsageError(`No profile ${quoteName(profile)}`);
  const { token, ...rest } = known;
  if (token !== undefined) writeProfile(configDir, profile, rest, 'log out again');
  return { profile, server: known.server, removed: token !== undefined };
}
