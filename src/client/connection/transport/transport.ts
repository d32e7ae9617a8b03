import type { Socket } from 'node:net';
import type { SecureContext } from 'node:tls';
import type { HttpError } from '../../errors.js';

/** How the server is reached where connections are not made to it directly: through a proxy, or through ssh. */
export interface Transport {
  /** The proxy or the tunnel, as a sentence begins: `The proxy http://proxy.example.org:3128 (HTTPS_PROXY)`. */
  readonly name: string;
  /** Opens a connection whose bytes arrive at the server. Without it, requests are sent to `forward`. */
  readonly open?: () => Promise<Socket>;
  /** The proxy that reads each request and passes it on, and the headers that it needs. */
  readonly forward?: { readonly origin: string; readonly headers: Readonly<Record<string, string>> };
  /** Where requests seem to go, if that is not the address that a person gave. */
  readonly base?: URL;
  /** The error for a 407 of the proxy, which asked for a login in these words. */
  loginRefused?(asked: string): HttpError;
  /** A failure of a connection whose cause lies on the way; null if it lies elsewhere. */
  explain?(error: unknown): Promise<Error | null>;
  close(): Promise<void>;
}

/** Certificates that are trusted in addition to those that Node knows. */
export interface Trust {
  /** Where they come from, for error messages. */
  readonly file: string;
  readonly context: SecureContext;
}

/** How TLS connections are made. Certificates are checked also where `NODE_TLS_REJECT_UNAUTHORIZED` is 0. */
export const tlsOptions = (trust: Trust | undefined) => ({
  rejectUnauthorized: true,
  ...(trust ? { secureContext: trust.context } : {}),
});
