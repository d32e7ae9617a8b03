import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { buildConnector, type Dispatcher } from 'undici';
import { explainTls } from './tls.js';
import { type Transport, type Trust, tlsOptions } from './transport.js';

interface ConnectorOptions {
  /** The server, for error messages. */
  readonly server: string;
  /** Seconds. */
  readonly timeout: number;
  readonly transport?: Transport | undefined;
  readonly trust?: Trust | undefined;
}

/** Whether the end of the connection marks the end of the answer. */
function endsWithConnection(headers: Readonly<Record<string, string | string[] | undefined>>): boolean {
  const isFramed = 'content-length' in headers || 'transfer-encoding' in headers;
  return !isFramed || /\bclose\b/i.test(String(headers.connection));
}

/**
 * Reads answers that end with the connection, without ever pausing, however slow the reader is: unread data is buffered in
 * memory. undici 7 crashes the process if such a connection ends during a pause (its issue 5360, fixed in version 8, which needs
 * Node 22).
 */
export const readToTheEnd: Dispatcher.DispatcherComposeInterceptor = (dispatch) => (options, handler) => {
  let isLast = false;
  return dispatch(options, {
    onRequestStart: (controller, context) => handler.onRequestStart?.(controller, context),
    onRequestUpgrade: (controller, status, headers, socket) =>
      handler.onRequestUpgrade?.(controller, status, headers, socket),
    onResponseStart(controller, status, headers, message) {
      isLast = endsWithConnection(headers);
      handler.onResponseStart?.(controller, status, headers, message);
    },
    onResponseData(controller, chunk) {
      handler.onResponseData?.(controller, chunk);
      if (isLast) controller.resume();
    },
    onResponseEnd: (controller, trailers) => handler.onResponseEnd?.(controller, trailers),
    onResponseError: (controller, error) => handler.onResponseError?.(controller, error),
  });
};

type Options = buildConnector.Options;
type Callback = buildConnector.Callback;

/** undici's connector, extended to use a transport and to keep track of sockets that are not connected yet. */
export class Connector {
  /** Sockets on which no request can be sent yet. */
  readonly #connecting = new Set<Socket>();
  readonly #connect: buildConnector.connector;

  constructor(private readonly options: ConnectorOptions) {
    const { timeout, trust } = options;
    this.#connect = buildConnector({ timeout: timeout * 1000, ...tlsOptions(trust) });
  }

  /** For undici. */
  readonly connect: buildConnector.connector = (options, callback) => {
    const { transport } = this.options;
    if (!transport?.open) {
      this.#make(options, callback);
      return;
    }
    transport.open().then(
      (socket) => {
        if (options.protocol === 'https:') this.#make({ ...options, httpSocket: socket }, callback);
        else callback(null, socket);
      },
      (error: Error) => callback(error, null),
    );
  };

  #make(options: Options, callback: Callback): void {
    const { server, trust } = this.options;
    let certificate: Buffer | undefined;
    // `#connect` returns the socket, although its types do not say so.
    const socket = this.#connect(options, (error, made) => {
      this.#connecting.delete(socket);
      if (!error) callback(null, made as Socket);
      else if (options.protocol !== 'https:') callback(error, null);
      else callback(explainTls(error, { server, hostname: options.hostname, certificate, trust }), null);
    }) as unknown as Socket;
    this.#connecting.add(socket);
    if (options.protocol === 'https:') {
      // Read before Node checks the certificate, because a refused one cannot be read later. Not with
      // `getPeerX509Certificate`: Node 20 would then check an empty certificate.
      socket.prependOnceListener('secure', () => {
        certificate = (socket as TLSSocket).getPeerCertificate().raw;
      });
    }
  }

  /** Closes the sockets that undici does not close: they would keep the process alive until their timeout. */
  close(): void {
    for (const socket of this.#connecting) socket.destroy(new Error('no longer wanted'));
  }
}
