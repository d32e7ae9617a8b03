import { BlockList, isIP, type Socket } from 'node:net';
import { Agent, buildConnector } from 'undici';
import { bareHost, excerpt, isLoopback, quoteName } from '../../contract/index.js';
import { HttpError, proxyLoginStatus, TransportError, UsageError } from '../errors.js';
import { notLetThrough } from './reply.js';
import { type Transport, type Trust, tlsOptions, unreachedReason } from './transport.js';

/** A proxy that the environment names for a server. */
interface NamedProxy {
  /** Scheme, host and port, without the password. */
  readonly origin: string;
  /** How messages refer to the proxy, including the variable that sets it. */
  readonly name: string;
  readonly variable: string;
  /** The value of `Proxy-Authorization`; null if the variable has no user. */
  readonly authorization: string | null;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** The name and value of a variable. Lower case takes precedence, as in curl; an empty variable counts as set. */
function variableFor(name: string, env: Environment): { name: string; value: string } | null {
  for (const each of [name, name.toUpperCase()]) {
    const value = env[each];
    if (value !== undefined) return { name: each, value: value.trim() };
  }
  return null;
}

/** Whether an address is in a network such as `10.0.0.0/8`. */
function isWithin(host: string, network: string): boolean {
  const [, address = '', prefix = ''] = /^(.+)\/(\d{1,3})$/.exec(network) ?? [];
  const family = isIP(address);
  if (family === 0 || family !== isIP(host) || Number(prefix) > (family === 4 ? 32 : 128)) return false;
  const list = new BlockList();
  const type = family === 4 ? 'ipv4' : 'ipv6';
  list.addSubnet(address, Number(prefix), type);
  return list.check(host, type);
}

/**
 * Whether an entry of NO_PROXY covers this server: a name with all names below it, an address or a network, each with or without
 * a port.
 */
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
    // The value is not shown, because it may contain a password.
    new UsageError(`The variable ${name} ${what}; it must be like http://proxy.example.org:3128`, { cause });
  let url: URL;
  try {
    url = new URL(/^[a-z][a-z\d+.-]*:\/\//i.test(value) ? value : `http://${value}`);
  } catch (cause) {
    throw problem('is not the address of a proxy', cause);
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
 * Chooses the proxy for a server according to `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`. undici's own implementation does not
 * support networks (`10.0.0.0/8`), and would send requests for this machine to the proxy.
 * @returns null if the server is reached directly
 * @throws UsageError for a variable that does not name a proxy; the message does not show its value
 */
export function chooseProxy(server: URL, env: Environment = process.env): NamedProxy | null {
  const isTls = server.protocol === 'https:';
  const found = variableFor(isTls ? 'https_proxy' : 'http_proxy', env);
  if (!found || found.value === '') return null;
  const host = bareHost(server.hostname);
  // A proxy is never used for this machine.
  if (isLoopback(host)) return null;
  const port = server.port || (isTls ? '443' : '80');
  const exceptions = variableFor('no_proxy', env)?.value.split(/[,\s]+/) ?? [];
  if (exceptions.some((entry) => entry !== '' && isMeant(entry.toLowerCase(), host, port))) return null;
  return readProxy(found.name, found.value);
}

/** The error for a proxy that requires a name and a password. */
function loginRefused(proxy: NamedProxy, asked: string): HttpError {
  const kinds = [...asked.matchAll(/(?:^|,\s*)([A-Za-z]+)(?=\s|,|$)/g)].map(([, kind]) => kind);
  const what = proxy.authorization
    ? `refuses the user and the password in ${proxy.variable}`
    : `asks for a user and a password: put them into ${proxy.variable}, as in http://USER:PASSWORD@proxy.example.org:3128`;
  const others = kinds.length > 0 && !kinds.some((kind) => /^basic$/i.test(kind ?? ''));
  const why = others
    ? `asks for a login by ${excerpt(kinds.join(', '), 100)}, which is not supported; ask its admin for another one`
    : what;
  return new HttpError(proxyLoginStatus, `${proxy.name} ${why}`, null, true);
}

/** The header that identifies the client to a proxy. */
const authorization = (proxy: NamedProxy): Record<string, string> =>
  proxy.authorization ? { 'proxy-authorization': proxy.authorization } : {};

/** For a server without TLS: the proxy gets each request, together with the server's address. */
function forwardTransport(proxy: NamedProxy): Transport {
  return {
    name: proxy.name,
    forward: { origin: proxy.origin, headers: authorization(proxy) },
    loginRefused: (asked) => loginRefused(proxy, asked),
    close: async () => {},
  };
}

/** For a server with TLS: the proxy opens a tunnel (CONNECT), and cannot see its contents. */
class TunnelTransport implements Transport {
  readonly name: string;
  readonly #target: string;
  readonly #agent: Agent;

  /** @param timeout for connecting and for the proxy's answer, in seconds */
  constructor(
    private readonly proxy: NamedProxy,
    server: URL,
    private readonly timeout: number,
    trust: Trust | undefined,
  ) {
    this.name = proxy.name;
    this.#target = `${server.hostname}:${server.port || '443'}`;
    this.#agent = new Agent({
      connect: buildConnector({ timeout: timeout * 1000, ...tlsOptions(trust) }),
    });
  }

  /** @throws TransportError or HttpError that names the proxy */
  readonly open = async (): Promise<Socket> => {
    const { proxy } = this;
    const answered = await this.#agent
      .connect({
        origin: proxy.origin,
        path: this.#target,
        headers: { host: this.#target, ...authorization(proxy) },
        signal: AbortSignal.timeout(this.timeout * 1000),
      })
      .catch((cause: unknown) => {
        throw this.#unreached(cause);
      });
    const { statusCode, headers } = answered;
    const socket = answered.socket as Socket;
    if (statusCode >= 200 && statusCode < 300) return socket;
    socket.on('error', () => {}).destroy();
    if (statusCode === proxyLoginStatus)
      throw loginRefused(proxy, String(headers['proxy-authenticate'] ?? ''));
    if (statusCode >= 500) {
      throw new TransportError(
        'unreached',
        `${proxy.name} cannot reach ${this.#target} (HTTP ${statusCode})`,
      );
    }
    throw new HttpError(403, notLetThrough(proxy.name, this.#target, statusCode), null, true);
  };

  #unreached(cause: unknown): TransportError {
    const isLate = cause instanceof DOMException && cause.name === 'TimeoutError';
    const text = cause instanceof Error ? excerpt(cause.message, 300) : '';
    const why = isLate ? 'it did not answer in time' : (unreachedReason(cause) ?? text);
    return new TransportError('unreached', `${this.name} cannot be reached: ${why}`, { cause });
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }
}

/**
 * The transport through the proxy that the environment names for a server; undefined if the server is reached directly.
 * @param timeout for connecting and for the proxy's answer, in seconds
 * @throws UsageError for a variable that does not name a proxy
 */
export function proxyTo(server: URL, timeout: number, trust: Trust | undefined): Transport | undefined {
  const proxy = chooseProxy(server);
  if (!proxy) return undefined;
  return server.protocol === 'https:'
    ? new TunnelTransport(proxy, server, timeout, trust)
    : forwardTransport(proxy);
}
