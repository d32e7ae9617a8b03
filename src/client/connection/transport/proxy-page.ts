import { needsTls } from './tls-error.js';
import type { Transport } from './transport.js';

/** How nginx, Apache and Go's server say that a plain request came to a port that speaks TLS. */
const plainToTls =
  /plain HTTP request was sent to HTTPS port|speaking plain HTTP to an SSL-enabled|HTTP request to an HTTPS server/;

/**
 * What an error answer means that is not the service's own: a page of a proxy on the way, as a rule.
 * @param text of the page
 */
export function pageSentence(
  status: number,
  text: string,
  server: string,
  transport: Transport | undefined,
): string {
  if (status === 400 && plainToTls.test(text)) return needsTls(server).message;
  if (transport?.forward) {
    const problem = forwardProblems[status];
    if (problem) return `${transport.name} ${problem(server)} (HTTP ${status})`;
  }
  return pages[status]?.(server) ?? `${server} answered with HTTP ${status}`;
}

const gateway = (server: string, status: number): string =>
  `A proxy answers at ${server}, but the server behind it does not (HTTP ${status}); its admin can look whether it runs`;

/** What the proxy in front of a server means. */
const pages: Readonly<Record<number, (server: string) => string>> = {
  413: (server) =>
    `A proxy in front of ${server} refuses an upload of this size (HTTP 413); its admin can allow it: ` +
    "nginx does with 'client_max_body_size 0;'",
  502: (server) => gateway(server, 502),
  503: (server) => gateway(server, 503),
  504: (server) => gateway(server, 504),
};

/** What the proxy of this side means, which the environment names. */
const forwardProblems: Readonly<Record<number, (server: string) => string>> = {
  403: (server) =>
    `does not let anybody reach ${server}; ask its admin to allow it, or list the host in NO_PROXY if it can be reached directly`,
  502: (server) => `cannot reach ${server}`,
  503: (server) => `cannot reach ${server}`,
  504: (server) => `cannot reach ${server}`,
};
