import { createServer, type IncomingMessage, request } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';

export interface ProxyRules {
  /** Port of this machine that every host leads to. */
  readonly port: number;
  /** `user:password` that it requires. */
  readonly login?: string;
  /** Answers everything with this status instead of passing it on. */
  readonly refuse?: number;
  /** How it asks for a login. */
  readonly asks?: string;
}

/** A real HTTP proxy on a free port, for plain requests and tunnels. Every host name leads to one port. */
export class HttpProxy implements AsyncDisposable {
  /** What was asked: `GET http://host/path` or `CONNECT host:443`. */
  readonly asked: string[] = [];
  readonly #sockets = new Set<Socket>();

  private constructor(
    readonly port: number,
    private readonly server: ReturnType<typeof createServer>,
  ) {}

  static async start(rules: ProxyRules): Promise<HttpProxy> {
    const server = createServer((incoming, response) => {
      const status = refusal(incoming, rules);
      proxy.asked.push(`${incoming.method} ${incoming.url}`);
      if (status !== null) {
        response.writeHead(status, { 'proxy-authenticate': rules.asks ?? 'Basic realm="x"' });
        response.end('<html>no</html>');
        return;
      }
      const { pathname, search, host } = new URL(incoming.url ?? '');
      const { 'proxy-authorization': _, ...headers } = incoming.headers;
      if (headers.host !== host) throw new Error(`the request is for ${headers.host}, not ${host}`);
      const onward = request(
        { port: rules.port, path: pathname + search, method: incoming.method, headers },
        (reply) => {
          response.writeHead(reply.statusCode ?? 0, reply.headers);
          reply.pipe(response);
        },
      );
      onward.on('error', () => response.writeHead(502).end('<html>502</html>'));
      incoming.pipe(onward);
    });
    server.on('connect', (incoming, socket: Socket) => {
      proxy.asked.push(`CONNECT ${incoming.url}`);
      const status = refusal(incoming, rules);
      if (status !== null) {
        const asks = `Proxy-Authenticate: ${rules.asks ?? 'Basic realm="x"'}`;
        socket.end(`HTTP/1.1 ${status} No\r\n${asks}\r\nContent-Length: 0\r\n\r\n`);
        return;
      }
      const onward = connect(rules.port, '127.0.0.1', () => {
        socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
        socket.pipe(onward).pipe(socket);
      });
      for (const each of [socket, onward]) each.on('error', () => socket.destroy());
    });
    server.on('connection', (socket) => {
      proxy.#sockets.add(socket);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const proxy: HttpProxy = new HttpProxy((server.address() as AddressInfo).port, server);
    return proxy;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

function refusal({ headers }: IncomingMessage, { login, refuse }: ProxyRules): number | null {
  if (refuse !== undefined) return refuse;
  if (login === undefined) return null;
  const wanted = `Basic ${Buffer.from(login).toString('base64')}`;
  return headers['proxy-authorization'] === wanted ? null : 407;
}
