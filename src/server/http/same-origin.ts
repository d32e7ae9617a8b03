import type { Context, Middleware } from 'koa';
import { ServiceError } from '../../contract/errors.js';
import { isLoopback } from '../../contract/host.js';
import { quoteName } from '../../contract/quote.js';

/** The name or address of a `Host` header, without its port; empty if the header is invalid. */
function hostName(header: string): string {
  const [, bracketed, plain] = /^(?:\[([\da-f:.]+)\]|([^[\]:@/\\?#\s]+))(?::\d*)?$/i.exec(header) ?? [];
  return bracketed ?? plain ?? '';
}

/** Whether an `Origin` is the server's own address, as the request names it. */
function isSameOrigin(origin: string, host: string): boolean {
  try {
    const { protocol, host: own } = new URL(origin);
    // Both leave out the default port of their scheme.
    return own !== '' && own === new URL(`${protocol}//${host}`).host;
  } catch {
    return false;
  }
}

const refusal = (problem: string) =>
  new ServiceError('foreignOrigin', `${problem}; to allow it, give the server a token and send that`);

/** Checks the headers in which a browser says which page sends the request. Other clients do not send them. */
function checkPage(ctx: Context): void {
  const origin = ctx.get('Origin');
  if (origin !== '' && !isSameOrigin(origin, ctx.get('Host'))) {
    throw refusal(`A server without a token answers no web page of another site (${quoteName(origin)})`);
  }
  const site = ctx.get('Sec-Fetch-Site').trim();
  if (!['', 'same-origin', 'none'].includes(site)) {
    throw refusal('A server without a token answers no web page of another site');
  }
}

/**
 * Keeps web pages of other sites out of a server without a token. A page that a user visits can make the browser send forms
 * to servers that only this user's machine reaches. So requests which a browser marks as coming from another site are
 * refused. On a loopback address requests with a foreign `Host` are refused as well, because a site can point its own name
 * at that address (DNS rebinding).
 * @param isOpen whether no token is asked for
 * @param listensOn the address in `--host`
 */
export function refuseOtherSites(isOpen: boolean, listensOn: string): Middleware {
  if (!isOpen) return (_ctx, next) => next();
  const checksHost = isLoopback(listensOn);
  const isOwn = (host: string): boolean => {
    const name = hostName(host);
    return isLoopback(name) || name.toLowerCase() === listensOn.toLowerCase();
  };
  return (ctx, next) => {
    const foreign = checksHost ? hostsOf(ctx).find((host) => !isOwn(host)) : undefined;
    if (foreign !== undefined) {
      throw refusal(
        `A server without a token, on a loopback address, answers no request for ${quoteName(foreign)}, only for localhost`,
      );
    }
    checkPage(ctx);
    return next();
  };
}

/** Every host that a request names: each `Host` header (an empty one if there is none), and the host of an absolute target. */
function hostsOf({ req }: Context): string[] {
  const hosts = req.headersDistinct.host ?? [''];
  const [, target] = /^[a-z][a-z\d+.-]*:\/\/([^/?#]*)/i.exec(req.url ?? '') ?? [];
  return target === undefined ? hosts : [...hosts, target];
}
