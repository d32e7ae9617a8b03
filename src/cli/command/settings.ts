import {
  type ConnectionOptions,
  defaultProfile,
  type Profile,
  proxyTo,
  readProfile,
  readServerUrl,
  readSshAddress,
  showServerUrl,
  type Transport,
  trustFile,
} from '../../client/connection/index.js';
import { UsageError } from '../../client/errors.js';
import { defaultServer, oneLine, quoteName, quotePath, tokenVariable } from '../../contract/index.js';
import { faultWithoutPath, readSmallFile } from '../../files/index.js';
import type { CommandIo } from '../terminal/index.js';
import { appVariable } from './flags.js';

/** The values of flags and environment variables. oclif has already given flags precedence. */
export interface ConnectionChoices {
  readonly server?: string | undefined;
  readonly token?: string | undefined;
  readonly 'token-file'?: string | undefined;
  readonly profile?: string | undefined;
  readonly app?: string | undefined;
  readonly ca?: string | undefined;
}

/** Names of the flags that were typed. The value of any other one comes from the environment. */
export type TypedFlags = ReadonlySet<string>;

export interface Settings {
  readonly server: string;
  /** Whether no server was named, so that the default address is used. */
  readonly isDefault: boolean;
  readonly token: string | undefined;
  /** The app to run, if one was named. */
  readonly app: string | undefined;
  /** What named the app, if not the command line: `the profile 'default'`, or a variable. */
  readonly appNamedBy?: string | undefined;
  /** File of additional trusted certificates. */
  readonly ca: string | undefined;
  /** The profile's de-identification mode. It applies to other servers as well. */
  readonly deidentify: Profile['deidentify'];
}

/**
 * Checks a token that was typed or read from a file.
 * @throws UsageError for a token that cannot be sent in a header; the message does not show it
 */
export function checkToken(text: string, source: string): string | undefined {
  const token = text.trim();
  if (token === '') return undefined;
  if (!/^[\x21-\x7e]+$/.test(token))
    throw new UsageError(`The token of ${source} contains characters that are not allowed in a token`);
  return token;
}

/** Reads a file that the user named. @param what the file is, such as `The token file` @throws UsageError */
export function readNamedFile(what: string, file: string): string {
  try {
    return readSmallFile(file);
  } catch (cause) {
    throw new UsageError(`${what} ${quotePath(file)} cannot be read: ${faultWithoutPath(cause)}`, { cause });
  }
}

function tokenOfFile(file: string): string {
  const token = checkToken(readNamedFile('The token file', file), file);
  if (token !== undefined) return token;
  throw new UsageError(`The token file ${quotePath(file)} is empty; put the token into it, or leave it out`);
}

const sameServer = (a: string, b: string): boolean =>
  showServerUrl(readServerUrl(a)) === showServerUrl(readServerUrl(b));

/**
 * Drops the environment if a profile was typed, because a typed flag takes precedence over the environment: its token was
 * meant for another server, and must not be sent to the profile's.
 */
function counted(choices: ConnectionChoices, typed: TypedFlags): ConnectionChoices {
  if (!typed.has('profile')) return choices;
  return Object.fromEntries(Object.entries(choices).filter(([name]) => typed.has(name)));
}

/**
 * Refuses a flag with an empty value, such as from an unset variable in a script: falling back to another server would be a
 * surprise.
 */
function refuseEmpty(choices: ConnectionChoices, typed: TypedFlags): void {
  for (const name of ['server', 'token', 'token-file', 'profile', 'app', 'ca'] as const) {
    if (typed.has(name) && choices[name]?.trim() === '') {
      throw new UsageError(`--${name} is empty; give it a value, or leave it out`);
    }
  }
}

/**
 * Settings from flags, then environment, then profile, then defaults. A profile's token is sent
 * only to the profile's server, not to another one that a flag or the environment names.
 * @throws UsageError for a flag that is empty, or a token that cannot be sent
 */
export function resolveSettings(
  choices: ConnectionChoices,
  profile: Profile | null,
  typed: TypedFlags = new Set(),
): Settings {
  refuseEmpty(choices, typed);
  const { server: address, token, 'token-file': file, app, ca } = counted(choices, typed);
  const server = address || profile?.server || defaultServer;
  const given = file
    ? tokenOfFile(file)
    : checkToken(token ?? '', typed.has('token') ? '--token' : tokenVariable);
  const own = profile && sameServer(profile.server, server) ? profile : null;
  // Unlike a token, an app from the environment is harmless, so it is used if the profile names none.
  const isOfProfile = !app && Boolean(own?.app);
  const chosen = app || own?.app || choices.app || undefined;
  return {
    server,
    isDefault: !(address || profile?.server),
    token: given ?? checkToken(own?.token ?? '', 'the profile'),
    app: chosen,
    ...(chosen && !typed.has('app')
      ? {
          appNamedBy: isOfProfile
            ? `the profile ${quoteName(choices.profile || defaultProfile)}`
            : appVariable,
        }
      : {}),
    // Certificates from the environment are harmless too: they are trusted in addition to the others.
    ca: ca || own?.ca || choices.ca || undefined,
    deidentify: profile?.deidentify,
  };
}

/** Resolves the settings with the profile read from the configuration directory. */
export const loadSettings = (
  choices: ConnectionChoices,
  configDir: string,
  typed: TypedFlags = new Set(),
): Settings => resolveSettings(choices, readProfile(configDir, choices.profile || null), typed);

/** Whether the environment names a proxy, so that the proxy module is needed. */
const namesProxy = (env: NodeJS.ProcessEnv): boolean =>
  Object.keys(env).some((name) => /^https?_proxy$/i.test(name));

/**
 * Opens an ssh tunnel before the first request, so that the time for typing a password does not count towards the request's time
 * limit.
 */
async function openTunnel(
  server: URL,
  io: CommandIo,
  timeout: number,
  signal: AbortSignal,
): Promise<Transport> {
  const { SshTunnel } = await import('../../client/ssh/index.js');
  const tunnel = new SshTunnel(readSshAddress(server), timeout, (line) => io.writeErr(`${oneLine(line)}\n`));
  try {
    await tunnel.start(signal);
  } catch (error) {
    await tunnel.close();
    throw error;
  }
  return tunnel;
}

/**
 * Sets up how the server is reached: trusted certificates, and a proxy or tunnel if needed. ssh is imported lazily because few
 * servers need it.
 * @param timeout of a connection, in seconds
 * @throws UsageError for unusable certificates or an unusable proxy; ClientError if ssh fails
 */
export async function transportTo(
  settings: Settings,
  io: CommandIo,
  { timeout, signal }: { timeout: number; signal: AbortSignal },
): Promise<Pick<ConnectionOptions, 'transport' | 'trust'>> {
  const server = readServerUrl(settings.server);
  if (server.protocol === 'ssh:') return { transport: await openTunnel(server, io, timeout, signal) };
  const trust = settings.ca ? await trustFile(settings.ca) : undefined;
  return { transport: namesProxy(io.env) ? await proxyTo(server, timeout, trust) : undefined, trust };
}
