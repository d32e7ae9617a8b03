import { BlockList, isIP } from 'node:net';
import { bareHost, isLoopback } from '../../../contract/host.js';
import { quoteName } from '../../../contract/quote.js';
import { UsageError } from '../../errors.js';

/** A proxy that the environment names for a server. */
export interface NamedProxy {
  /** Scheme, host and port: no password. */
  readonly origin: string;
  /** Its name in messages, with the variable that names it. */
  readonly name: string;
  readonly variable: string;
  /** The value of `Proxy-Authorization`; null if the variable has no user. */
  readonly authorization: string | null;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** The variable that is set, in lower case first, as curl does; an empty one counts as set. */
function variableFor(name: string, env: Environment): { name: string; value: string } | null {
  for (const each of [name, name.toUpperCase()]) {
    const value = env[each];
    if (value !== undefined) return { name: each, value: value.trim() };
  }
  return null;
}

/** Whether an address lies in a network, `10.0.0.0/8`. */
function isWithin(host: string, network: string): boolean {
  const [, address = '', prefix = ''] = /^(.+)\/(\d{1,3})$/.exec(network) ?? [];
  const family = isIP(address);
  if (family === 0 || family !== isIP(host) || Number(prefix) > (family === 4 ? 32 : 128)) return false;
  const list = new BlockList();
  const type = family === 4 ? 'ipv4' : 'ipv6';
  list.addSubnet(address, Number(prefix), type);
  return list.check(host, type);
}

/** Whether an entry of NO_PROXY means this server: a name and all below it, an address or a network, each with or without a port. */
function isMeant(entry: string, host: string, port: string): boolean {
  if (entry === '*') return true;
  if (isWithin(host, bareHost(entry))) return true;
  const [, name = '', wantedPort] = /^(\[[^\]]+\]|[^:]+|.*:.*:.*?)(?::(\d+))?$/.exec(entry) ?? [];
  if (wantedPort !== undefined && wantedPort !== port) return false;
  const wanted = bareHost(name).replace(/^\*?\./, '');
  return wanted !== '' && (host === wanted || (isIP(host) === 0 && host.endsWith(`.${wanted}`)));
}

function readProxy(name: string, value: string): NamedProxy {
  const problem = (what: string, cause?: unknown) =>
    // The value may hold a password.
    new UsageError(`The variable ${name} ${what}; it must be like http://proxy.example.org:3128`, { cause });
  let url: URL;
  try {
    url = new URL(/^[a-z][a-z\d+.-]*:\/\//i.test(value) ? value : `http://${value}`);
  } catch (cause) {
    throw problem('holds no address of a proxy', cause);
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw problem(`names a proxy of a kind that is not supported (${quoteName(url.protocol)})`);
  }
  let user: string;
  try {
    user = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
  } catch (cause) {
    throw problem('holds a user or a password with a % that is not written as %25', cause);
  }
  return {
    origin: url.origin,
    name: `The proxy ${url.origin} (${name})`,
    variable: name,
    authorization: user === ':' ? null : `Basic ${Buffer.from(user).toString('base64')}`,
  };
}

/**
 * The proxy for a server, as `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` say. undici's own choice does not know networks
 * (`10.0.0.0/8`) and would send what is for this machine to the proxy.
 * @returns null if the server is reached directly
 * @throws UsageError for a variable that names no proxy; the message does not show its value
 */
export function chooseProxy(server: URL, env: Environment = process.env): NamedProxy | null {
  const isTls = server.protocol === 'https:';
  const found = variableFor(isTls ? 'https_proxy' : 'http_proxy', env);
  if (!found || found.value === '') return null;
  const host = bareHost(server.hostname);
  // No proxy leads to this machine.
  if (isLoopback(host)) return null;
  const port = server.port || (isTls ? '443' : '80');
  const exceptions = variableFor('no_proxy', env)?.value.split(/[,\s]+/) ?? [];
  if (exceptions.some((entry) => entry !== '' && isMeant(entry.toLowerCase(), host, port))) return null;
  return readProxy(found.name, found.value);
}
