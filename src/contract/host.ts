/** The host of a URL without the brackets around an IPv6 address. */
export const bareHost = (hostname: string): string => hostname.replace(/^\[|\]$/g, '');

/** `localhost` and the names below it, and loopback addresses, as a URL spells them. */
const loopback = /^((.+\.)?localhost\.?|127(\.\d+){3}|\[::1\]|\[::ffff:7f[\da-f]{2}:[\da-f]{1,4}\])$/;

/** Whether a host, as a name or as an address without brackets, is this machine itself. */
export function isLoopback(host: string): boolean {
  try {
    // A URL has one spelling for each address.
    return loopback.test(new URL(`http://${host.includes(':') ? `[${host}]` : host}`).hostname);
  } catch {
    return false;
  }
}
