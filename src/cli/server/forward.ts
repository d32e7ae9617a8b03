import { once } from 'node:events';
import { type Connection, health } from '../../client/connection/index.js';
import type { Reporter } from '../../client/reporter.js';
import { formatPairs } from '../terminal/index.js';

/** An open gateway, as described to its clients. */
export interface Forwarding {
  readonly host: string;
  readonly port: number;
  /** The gateway's own secret, which its clients send as a bearer token. */
  readonly token: string;
  /** Where the requests go. */
  readonly server: string;
}

/** The values to copy into a client, as lines. */
export const describeForwarding = ({ host, port, token }: Forwarding): string[] =>
  formatPairs([
    ['host', host],
    ['port', String(port)],
    ['token', token],
  ]);

/** Note for a user who asks for de-identification, which a gateway cannot do. */
const withoutFiles =
  "Your profile or REMOTE_APP_DEIDENTIFY asks for --deidentify, which this command cannot do: it passes no files on, and 'remote-app " +
  "infer' sends them. If everything may leave as it is, start it with --no-deidentify.";

/** Notes on which settings to make in which program. */
const adviceOn = ({ host, port, server }: Forwarding, passesFiles: boolean): string[] => [
  ...(passesFiles ? [] : [withoutFiles]),
  `Requests go on to ${server}, with its token, until Ctrl-C. The token above is for this run and this machine alone.`,
  '3D Slicer, module KonfAI: + beside "Remote server", then this host, port and token.',
  `konfai-apps: --host ${host} --port ${port}, and the token in KONFAI_API_TOKEN.`,
  `If a proxy is set (HTTP_PROXY), start them with NO_PROXY=${host},localhost,::1`,
];

/** Time limit of the first request to the server, in seconds. */
const firstLook = 5;

/** Reports a problem that keeps requests from being answered, and its end, once each. */
function outageTeller({ server }: Connection, reporter: Reporter): (problem: Error | null) => void {
  let told = '';
  return (problem) => {
    const message = problem?.message ?? '';
    if (message === told) return;
    told = message;
    if (message === '') reporter.note(`${server} answers again`);
    else reporter.note(`${message}; until that changes, requests are answered with this sentence`);
  };
}

/**
 * Lets programs on this machine reach the server through a gateway, until the signal is aborted.
 * @param passesFiles false to refuse every request that may carry a file
 * @param announce prints the address of the gateway, once it is open
 * @param signal aborted when the user interrupts the command, which is its usual end
 * @throws UsageError for a port that cannot be used
 */
export async function forwardUntil(
  connection: Connection,
  { port, passesFiles }: { readonly port: number; readonly passesFiles: boolean },
  {
    announce,
    reporter,
    signal,
  }: {
    readonly announce: (forwarding: Forwarding) => Promise<void>;
    readonly reporter: Reporter;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  const { openGateway } = await import('../../client/gateway/index.js');
  const onAnswer = outageTeller(connection, reporter);
  const gateway = await openGateway(connection, port, onAnswer, passesFiles);
  try {
    const { host, secret: token } = gateway;
    const forwarding = { host, port: gateway.port, token, server: connection.server };
    await announce(forwarding);
    for (const line of adviceOn(forwarding, passesFiles)) reporter.note(line);
    // Shows a wrong address or token right away, instead of only in the other program.
    health(connection, firstLook).catch((error: Error) => signal.aborted || onAnswer(error));
    if (!signal.aborted) await once(signal, 'abort');
  } finally {
    await gateway.close();
  }
}
