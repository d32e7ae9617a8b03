import { type Profile, readProfile } from '../client/connection/profiles.js';
import { readServerUrl, showServerUrl } from '../client/connection/server-url.js';
import { UsageError } from '../client/errors.js';
import { defaultServer } from '../contract/defaults.js';
import { quoteName } from '../contract/quote.js';
import { faultWithoutPath } from '../files/error-code.js';
import { readSmallFile } from '../files/small-file.js';

/** Values of flags and environment variables; oclif has given flags priority already. */
export interface ConnectionChoices {
  readonly server?: string | undefined;
  readonly token?: string | undefined;
  readonly 'token-file'?: string | undefined;
  readonly profile?: string | undefined;
}

export interface Settings {
  readonly server: string;
  readonly token: string | undefined;
  /** The profile's app. */
  readonly app: string | undefined;
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

function tokenOfFile(file: string): string | undefined {
  try {
    return checkToken(readSmallFile(file), file);
  } catch (cause) {
    if (cause instanceof UsageError) throw cause;
    throw new UsageError(`The token file ${quoteName(file)} cannot be read: ${faultWithoutPath(cause)}`, {
      cause,
    });
  }
}

const sameServer = (a: string, b: string): boolean =>
  showServerUrl(readServerUrl(a)) === showServerUrl(readServerUrl(b));

/**
 * Settings from flags, then environment, then profile, then defaults (interface.md, Clients). A profile's token is sent
 * only to the profile's server, not to another one that a flag or the environment names.
 */
export function resolveSettings(choices: ConnectionChoices, profile: Profile | null): Settings {
  const server = choices.server || profile?.server || defaultServer;
  const file = choices['token-file'];
  const given = file ? tokenOfFile(file) : checkToken(choices.token ?? '', '--token');
  const own = profile && sameServer(profile.server, server) ? profile : null;
  return { server, token: given ?? checkToken(own?.token ?? '', 'the profile'), app: own?.app };
}

/** The same, with the profile read from the configuration directory. */
export const loadSettings = (choices: ConnectionChoices, configDir: string): Settings =>
  resolveSettings(choices, readProfile(configDir, choices.profile || null));
