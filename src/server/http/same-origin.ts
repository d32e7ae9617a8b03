import type { IncomingMessage } from 'node:http';
import type { Middleware } from 'koa';
import { isLoopback, quoteName, ServiceError } from '../../contract/index.js';
import { orElse } from '../../files/index.js';

/** The name or address of a `Host` header, without its port; empty if the header is invalid. */
function hostName(header: string): string {
  const [, bracketed, plain] = /^(?:\[([\da-f:.]+)\]|([^[\]:@/\\?#\s]+))(?::\d*)?$/i.exec(header) ?? [];
  return bracketed ?? plain ?? '';
}

/** Whether an `Origin` is the server's own, judging by the `Host` of the request. */
function isSameOrigin(origin: string, host: string): boolean {
  return orElse(() => {
    const { protocol, host: own } = new URL(origin);
    // Parsing both drops the default port of their scheme.
    return own !== '' && own === new URL(`${protocol}//${host}`).host;
  }, false);
}

/** A server that answers without a token, as refusals describe it. */
export interface OpenListener {
  /** The address that it listens on. */
  readonly host: string;
  /** As the subject of a sentence. */
  readonly name: string;
  /** What an admin can do to allow such a request. */
  readonly remedy: string;
}

/** The value of a header that is sent once; empty if the header is missing. */
const headerOf = (request: IncomingMessage, name: string): string => String(request.headers[name] ?? '');

/**
 * Protects a server without a token from web pages of other sites. A page that a user visits can make the browser send requests
 * to servers that only the user's machine can reach. Requests that a browser marks as coming from another site are therefore
 * refused. On a loopback address, requests with a foreign `Host` are refused as well, because a site can point its own name at
 * that address (DNS rebinding).
 * @returns a check that throws for a request of another site
 */
export function siteCheck({
  host: listensOn,
  name,
  remedy,
}: OpenListener): (request: IncomingMessage) => void {
  const checksHost = isLoopback(listensOn);
  const isOwn = (header: string): boolean => isLoopback(hostName(header));
  const refusal = (problem: string) => new ServiceError('foreignOrigin', `${problem}; ${remedy}`);
  return (request) => {
    const foreign = checksHost ? hostsOf(request).find((host) => !isOwn(host)) : undefined;
    if (foreign !== undefined) {
      throw refusal(
        `${name}, on a loopback address, answers no request for ${quoteName(foreign)}, only for localhost`,
      );
    }
    // Headers with which browsers report the page that sends a request. Other clients do not send them.
    const origin = headerOf(request, 'origin');
    if (origin !== '' && !isSameOrigin(origin, headerOf(request, 'host'))) {
      throw refusal(`${name} answers no web page of another site (${quoteName(origin)})`);
    }
    const site = headerOf(request, 'sec-fetch-site').trim();
    if (!['', 'same-origin', 'none'].includes(site)) {
      throw refusal(`${name} answers no web page of another site`);
    }
  };
}

/**
 * Applies `siteCheck` to a server without a token.
 * @param isOpen whether no token is required
 * @param host the address in `--host`
 */
export function refuseOtherSites(isOpen: boolean, host: string): Middleware {
  if (!isOpen) return (_ctx, next) => next();
  const remedy = 'to allow it, give the server a token and send that';
  const check = siteCheck({ host, name: 'A server without a token', remedy });
  return (ctx, next) => {
    check(ctx.req);
    return next();
  };
}

/**
 * Every host named in a request: each `Host` header (an empty one if there is none), and the host of an absolute target.
 */
function hostsOf(request: IncomingMessage): string[] {
  const hosts = request.headersDistinct.host ?? [''];
  const [, target] = /^[a-z][a-z\d+.-]*:\/\/([^/?#]*)/i.exec(request.url ?? '') ?? [];
  return target === undefined ? hosts : [...hosts, target];
}
