import { bareHost, defaultHost, defaultPort, defaultServer, quoteName } from '../../contract/index.js';
import { UsageError } from '../errors.js';

/**
 * Parses a server's address: http or https, with an optional path prefix and nothing else; or one over ssh.
 * @throws UsageError saying what is wrong with it
 */
export function readServerUrl(text: string): URL {
  let url: URL;
  try {
    url = new URL(text.trim());
  } catch (cause) {
    throw new UsageError(`'${text}' is not a server URL; use one like ${defaultServer}`, {
      cause,
    });
  }
  if (url.protocol === 'ssh:') {
    readSshAddress(url);
    return url;
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new UsageError(`A server URL begins with http://, https:// or ssh://, got '${text}'`);
  }
  if (url.username !== '' || url.password !== '') {
    throw new UsageError('The address of a server must hold no credentials; give a token instead');
  }
  url.search = '';
  url.hash = '';
  url.pathname = url.pathname.replace(/\/+$/, '');
  return url;
}

/** The address as a person writes it: without a slash at the end. */
export const showServerUrl = (url: URL): string => url.href.replace(/\/$/, '');

/** A server that is reached by ssh: `ssh://[USER@]HOST[:PORT][/[HOST:]PORT]`. */
export interface SshAddress {
  /** The address as the user gave it. */
  readonly text: string;
  /** The host for the ssh program: a name from its configuration, a host name or an IP address without brackets. */
  readonly host: string;
  readonly user: string | null;
  readonly port: number | null;
  /** Where the service listens, as the ssh host sees it. An IPv6 address is in brackets. */
  readonly target: { readonly host: string; readonly port: number };
}

// Text that matches is passed on ssh's command line and, through ssh's configuration, to a shell. No match begins like a flag.
const hostPattern = /^(?:[A-Za-z0-9_][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])$/;
const userPattern = /^[A-Za-z0-9_][A-Za-z0-9._@+-]*\$?$/;

const readPort = (text: string): number | null => {
  const port = Number(text);
  return /^\d{1,5}$/.test(text) && port >= 1 && port <= 65_535 ? port : null;
};

/** Reads the address of a server that is reached by ssh. @throws UsageError saying what is wrong with it */
export function readSshAddress(url: URL): SshAddress {
  const text = url.href.replace(/\/$/, '');
  const wrong = (what: string) =>
    new UsageError(
      `${quoteName(text)} ${what}; an address over ssh is ssh://[USER@]HOST[:PORT][/[HOST:]PORT], as in ` +
        `ssh://ana@gpu.example.org or ssh://login.example.org/gpu03:${defaultPort}`,
    );
  if (url.password !== '') {
    throw new UsageError('The address of a server must hold no password; ssh asks for it');
  }
  if (!hostPattern.test(url.hostname)) throw wrong('names no host');
  let user: string;
  try {
    user = decodeURIComponent(url.username);
  } catch {
    throw wrong('names no user');
  }
  if (user !== '' && !userPattern.test(user)) throw wrong('names no user');
  const port = url.port === '' ? null : readPort(url.port);
  if (url.port !== '' && port === null) throw wrong('names no port');
  const [, host, targetPort] = /^\/(?:(.*):)?([^:/]*)$/.exec(url.pathname || '/') ?? [];
  const isPlace = targetPort !== undefined && (host === undefined || hostPattern.test(host));
  const place = targetPort === '' && host === undefined ? defaultPort : readPort(targetPort ?? '');
  if (!isPlace || place === null || url.search !== '' || url.hash !== '') {
    throw wrong('does not say where the service listens');
  }
  return {
    text,
    host: bareHost(url.hostname),
    user: user || null,
    port,
    target: { host: host ?? defaultHost, port: place },
  };
}

/** The ssh command that logs in to this address. */
export const sshCommand = ({ host, user, port }: SshAddress): string =>
  `ssh${port === null ? '' : ` -p ${port}`} ${user === null ? '' : `${user}@`}${host}`;
