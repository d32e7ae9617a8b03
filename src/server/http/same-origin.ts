import { BlockList, isIP } from 'node:net';
import type { Context, Middleware } from 'koa';
import { ServiceError } from '../../contract/errors.js';
import { quoteName } from '../../contract/quote.js';

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

/** Whether a name or an address, without brackets and port, is of this machine alone. */
function isLoopback(host: string): boolean {
  const family = isIP(host);
  if (family === 0) return /^(.+\.)?localhost\.?$/i.test(host);
  // Addresses of IPv4 written as IPv6 count as what they are.
  return loopback.check(host, family === 6 ? 'ipv6' : 'ipv4');
}

/** The name or address of a `Host` header, without its port; empty where it has none that can be read. */
function hostName(header: string): string {
  const [, bracketed, plain] = /^(?:\[([\da-f:.]+)\]|([^[\]:@/\\?#\s]+))(?::\d*)?$/i.exec(header) ?? [];
  return bracketed ?? plain ?? '';
}

/** Whether a page at `origin` is one of this server's own address, as the request names it. */
function isSameOrigin(origin: string, host: string): boolean {
  try {
    const { protocol, host: own } = new URL(origin);
    // Each side leaves out the port that its scheme has by default.
    return own !== '' && own === new URL(`${protocol}//${host}`).host;
  } catch {
    return false;
  }
}

const refusal = (problem: string) =>
  new ServiceError('foreignOrigin', `${problem}; to allow it, give the server a token and send that`);

/** What a browser says of the page that asks. Other clients say nothing of the kind. */
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
 * Keeps web pages out of a server without a token. Whoever visits a page lends it the browser: that reaches servers
 * which others do not, and sends a form without asking first. So what a browser says to come from another site is
 * refused; and on a loopback address also what is for another host, for a page may give its own name that address.
 * @param listensOn what `--host` names
 */
export function refuseOtherSites(token: string | null, listensOn: string): Middleware {
  if (token !== null) return (_ctx, next) => next();
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

/** Every host that a request names: each `Host` header, none counting as one that is empty, and that of its target. */
function hostsOf({ req }: Context): string[] {
  const hosts = req.headersDistinct.host ?? [''];
  const [, target] = /^[a-z][a-z\d+.-]*:\/\/([^/?#]*)/i.exec(req.url ?? '') ?? [];
  return target === undefined ? hosts : [...hosts, target];
}
