import { homedir } from 'node:os';
import path from 'node:path';
import { expandHome, orElse, readSmallFile } from '../../files/index.js';
import { SetupError } from '../setup-error.js';

/**
 * Where repositories come from and where they are stored, read from the environment variables that Python's `huggingface_hub`
 * uses.
 */
export interface HubSettings {
  /** Address of the hub, without a trailing slash. */
  readonly endpoint: string;
  /** The cache directory, which contains a directory for each repository. */
  readonly cache: string;
  /** Whether requests to the hub are disabled. */
  readonly isOffline: boolean;
  /** The token for requests. It is read each time, since somebody may have logged in since. */
  readonly token: () => string | null;
}

const isTrue = (value: string | undefined): boolean => /^(1|on|yes|true)$/i.test(value ?? '');

/** A path with `~` and `$NAME` expanded as in Python. */
function expanded(given: string, environment: NodeJS.ProcessEnv): string {
  const home = expandHome(given, environment.HOME ?? homedir());
  return path.resolve(
    home.replace(/\$(?:(\w+)|\{(\w+)\})/g, (text, bare, braced) => environment[bare ?? braced] ?? text),
  );
}

const readToken = (file: string): string | null =>
  orElse(() => readSmallFile(file), '')
    .replaceAll(/[\r\n]/g, '')
    .trim() || null;

function endpointOf(given: string): string {
  const url = URL.canParse(given) ? new URL(given) : null;
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new SetupError(`HF_ENDPOINT is '${given}', which is not an address such as https://huggingface.co`);
  }
  return given.replace(/\/+$/, '');
}

/**
 * The settings of an environment.
 * @throws SetupError for an invalid address
 */
export function hubSettings(environment: NodeJS.ProcessEnv): HubSettings {
  const of = (name: string): string | null => environment[name] || null;
  const home = expanded(
    of('HF_HOME') ?? path.join(of('XDG_CACHE_HOME') ?? '~/.cache', 'huggingface'),
    environment,
  );
  const cache = of('HF_HUB_CACHE') ?? of('HUGGINGFACE_HUB_CACHE') ?? path.join(home, 'hub');
  const tokenFile = expanded(of('HF_TOKEN_PATH') ?? path.join(home, 'token'), environment);
  const given = (of('HF_TOKEN') ?? of('HUGGING_FACE_HUB_TOKEN'))?.trim() || null;
  return {
    endpoint: endpointOf(of('HF_ENDPOINT') ?? 'https://huggingface.co'),
    cache: expanded(cache, environment),
    isOffline: isTrue(of('HF_HUB_OFFLINE') ?? environment.TRANSFORMERS_OFFLINE),
    token: () => (isTrue(environment.HF_HUB_DISABLE_IMPLICIT_TOKEN) ? null : (given ?? readToken(tokenFile))),
  };
}
