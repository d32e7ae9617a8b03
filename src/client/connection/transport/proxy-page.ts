import { isGatewayError, isOfAnother } from '../../errors.js';
import { needsTls } from './tls-error.js';
import type { Transport } from './transport.js';

/** How nginx, Apache and Go's server say that a plain request came to a port that speaks TLS. */
const plainToTls =
  /plain HTTP request was sent to HTTPS port|speaking plain HTTP to an SSL-enabled|HTTP request to an HTTPS server/;

/** What to say where a proxy that the environment names refuses to reach a server. */
export const notLetThrough = (proxy: string, target: string, status: number): string =>
  `${proxy} does not let anybody reach ${target} (HTTP ${status}); ask its admin to allow it, ` +
  'or list the host in NO_PROXY if it can be reached directly';

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
    if (status === 403) return notLetThrough(transport.name, server, status);
    if (isGatewayError(status)) return `${transport.name} cannot reach ${server} (HTTP ${status})`;
  }
  if (status === 413) {
    return (
      `A proxy in front of ${server} refuses an upload of this size (HTTP 413); its admin can allow it: ` +
      "nginx does with 'client_max_body_size 0;'"
    );
  }
  if (isOfAnother(status)) {
    return `${server} answered with HTTP ${status}, and not as the service does: is that its address?`;
  }
  return isGatewayError(status)
    ? `A proxy answers at ${server}, but the server behind it does not (HTTP ${status}); its admin can look whether it runs`
    : `${server} answered with HTTP ${status}`;
}
