import type { Socket } from 'node:net';
import { Agent, buildConnector } from 'undici';
import { excerpt } from '../../../contract/quote.js';
import { HttpError, proxyLoginStatus, TransportError } from '../../errors.js';
import type { NamedProxy } from './proxy-choice.js';
import { notLetThrough } from './proxy-page.js';
import { unreachedReason } from './socket-faults.js';
import { type Transport, type Trust, tlsOptions } from './transport.js';

/** The error for a proxy that wants to know who asks. */
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

/** The header by which a proxy knows who asks. */
const authorization = (proxy: NamedProxy): Record<string, string> =>
  proxy.authorization ? { 'proxy-authorization': proxy.authorization } : {};

/** For a server without TLS: the proxy gets each request, addressed to the server. */
export function forwardTransport(proxy: NamedProxy): Transport {
  return {
    name: proxy.name,
    forward: { origin: proxy.origin, headers: authorization(proxy) },
    loginRefused: (asked) => loginRefused(proxy, asked),
    close: async () => {},
  };
}

/** For a server with TLS: the proxy opens a tunnel (CONNECT), and sees nothing of what goes through it. */
export class TunnelTransport implements Transport {
  readonly name: string;
  readonly #target: string;
  readonly #agent: Agent;

  /** @param timeout of a connection and of the proxy's answer, in seconds */
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
