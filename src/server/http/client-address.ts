import { createHash, timingSafeEqual } from 'node:crypto';
import type { Server } from 'node:http';
import { BlockList, isIP, type Socket } from 'node:net';
import { networkInterfaces } from 'node:os';
import type { Context, Middleware } from 'koa';
import { SetupError } from '../setup-error.js';

/** A canonical address for comparing and writing: an IPv4 address in IPv6 form becomes plain IPv4. */
const plain = (address: string): string => address.replace(/^::ffff:(?=\d+\.)/i, '');

/** A set of addresses. */
export type AddressSet = Pick<BlockList, 'check'>;

/**
 * The proxies that the admin trusts: `serve --trusted-proxy`.
 * @throws SetupError for a text that is neither an address nor a network, such as 10.0.0.0/8
 */
export function proxyList(texts: readonly string[]): AddressSet {
  const list = new BlockList();
  for (const text of texts) {
    const [address = '', bits, ...more] = text.split('/');
    const family = isIP(address);
    const kind = family === 6 ? 'ipv6' : 'ipv4';
    const maxBits = family === 6 ? 128 : 32;
    const isNetwork = bits !== undefined && /^\d{1,3}$/.test(bits) && Number(bits) <= maxBits;
    if (family === 0 || more.length > 0 || (bits !== undefined && !isNetwork)) {
      throw new SetupError(
        `--trusted-proxy: '${text}' is neither an address nor a network such as 10.0.0.0/8`,
      );
    }
    if (bits === undefined) list.addAddress(address, kind);
    else list.addSubnet(address, Number(bits), kind);
  }
  return list;
}

const isIn = (list: AddressSet, address: string): boolean => {
  const family = isIP(address);
  return family !== 0 && list.check(address, family === 6 ? 'ipv6' : 'ipv4');
};

/** The address in an entry of `X-Forwarded-For`, without a port. */
function entryAddress(entry: string): string {
  const text = entry.trim();
  const [, bracketed, v4] = /^(?:\[([^\]]+)\](?::\d+)?|(\d+(?:\.\d+){3}):\d+)$/.exec(text) ?? [];
  return plain(bracketed ?? v4 ?? text);
}

/**
 * The address that a request comes from: the other end of its connection or, behind trusted proxies, the last address that the
 * first of them saw. If the connection comes from any other address, the header is ignored.
 */
function clientAddress(remote: string, forwarded: string, trusted: AddressSet): string {
  let address = plain(remote);
  const entries = forwarded === '' ? [] : forwarded.split(',').map(entryAddress);
  for (let entry = entries.pop(); entry !== undefined && isIn(trusted, address); entry = entries.pop()) {
    if (isIP(entry) === 0) break;
    address = entry;
  }
  return address;
}

/**
 * Reads the address of each connection at its start, because the system forgets it after a reset. A connection without an address
 * has already ended, and is destroyed before anything that it sent is read.
 */
export function noteAddresses(server: Server): void {
  server.on('connection', (socket: Socket) => {
    // Reading the property makes Node remember the address.
    if (socket.remoteAddress === undefined) socket.destroy();
  });
}

const interfaceAddresses = (): string[] =>
  Object.values(networkInterfaces()).flatMap((each) => each?.map(({ address }) => address) ?? []);

/** The addresses of this machine at the moment. */
const ownAddresses = (): AddressSet => proxyList(['127.0.0.0/8', ...interfaceAddresses()]);

/** Whether one of these addresses or networks includes this machine itself, where every user could impersonate the proxy. */
export function isOwnProxy(texts: readonly string[]): boolean {
  const [trusted, own] = [proxyList(texts), ownAddresses()];
  return (
    texts.some((text) => isIn(own, text.replace(/\/.*/, ''))) ||
    interfaceAddresses().some((address) => isIn(trusted, address))
  );
}

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

/** The header in which a proxy sends the secret of `serve --proxy-secret-file`. */
const secretHeader = 'X-Proxy-Secret';

/**
 * Sets the client address of a request. With a secret, only a request that carries it comes from a proxy. Without one, no request
 * from this machine does, because every user of the machine could write the header.
 */
export function fromClient(trusted: AddressSet, secret: string | null): Middleware {
  const own = ownAddresses();
  const expected = secret === null ? null : digest(secret);
  return (ctx: Context, next) => {
    const remote = ctx.req.socket.remoteAddress ?? '';
    const isProxy = expected
      ? timingSafeEqual(digest(ctx.get(secretHeader)), expected)
      : !isIn(own, plain(remote));
    ctx.request.ip = clientAddress(remote, isProxy ? ctx.get('X-Forwarded-For') : '', trusted);
    return next();
  };
}
