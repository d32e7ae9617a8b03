/** Error codes of Node and undici which mean that no connection was made. */
const unreached: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there',
  ENOTFOUND: 'no such host',
  EAI_AGAIN: 'the host name could not be looked up',
  EHOSTUNREACH: 'no route to the host',
  ENETUNREACH: 'no route to the network',
  UND_ERR_CONNECT_TIMEOUT: 'the connection timed out',
};

/** The first error code among an error and its causes; empty if there is none. */
export function codeOf(error: unknown): string {
  for (let each = error; each instanceof Error; each = each.cause) {
    const { code } = each as NodeJS.ErrnoException;
    if (typeof code === 'string') return code;
  }
  return '';
}

/** Why no connection was made; undefined for another kind of failure. */
export const unreachedReason = (error: unknown): string | undefined => unreached[codeOf(error)];

/** Whether the other side closed a connection that a request was on. */
export const wasClosed = (error: unknown): boolean =>
  ['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'].includes(codeOf(error));
