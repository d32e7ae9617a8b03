import { exitCodes } from '../../contract/errors.js';
import { excerpt } from '../../contract/quote.js';
import { type SshAddress, sshCommand } from '../connection/ssh-address.js';
import { ClientError, TransportError, type TransportFault } from '../errors.js';

/** What a shell ends with when it finds no program of this name. */
const noProgram = 127;

/** Lines of ssh that are no reason for its end. */
const chatter = /^(Warning: Permanently added|debug\d|\*\* )/;

/** The last words of ssh, which say why it ended. */
function lastWords(stderr: string): string {
  const lines = stderr.split(/\r?\n/).map((line) => line.trim());
  const said = lines.filter((line) => line !== '' && !chatter.test(line)).slice(-2);
  return said.length > 0 ? ` (ssh says: ${excerpt(said.join('; '), 400)})` : '';
}

/** What the words of ssh mean. */
const meanings: readonly {
  readonly words: RegExp;
  readonly fault: TransportFault;
  readonly means: (address: SshAddress) => string;
}[] = [
  {
    words: /Host key verification failed|REMOTE HOST IDENTIFICATION HAS CHANGED|No .* host key is known/,
    fault: 'unusable',
    means: (address) =>
      `ssh does not know its host key, or another one; run '${sshCommand(address)}' once and compare the key with its admin's`,
  },
  {
    words: /Could not resolve hostname/,
    fault: 'unreached',
    means: ({ host }) => `ssh finds no host ${host}`,
  },
  {
    words: /Connection refused/,
    fault: 'unreached',
    means: ({ port }) => `no ssh server listens there${port === null ? '' : `, on port ${port}`}`,
  },
];

/**
 * Why ssh ended before there was a tunnel, or without one being closed.
 * @param code of its end; null if it could not be run, as on Windows, which has no shell of this kind
 * @param isAgain whether it was a reconnect, at which nobody is asked for a password
 */
export function explainSsh(
  address: SshAddress,
  { code, stderr, isAgain }: { code: number | null; stderr: string; isAgain: boolean },
): ClientError {
  const words = lastWords(stderr);
  if (code === null) {
    const { port } = address.target;
    const byHand = `${sshCommand(address)} -N -L ${port}:${address.target.host}:${port}`;
    return new TransportError(
      'unusable',
      `ssh cannot be run for ${address.text}${words}; run '${byHand}' yourself and use http://127.0.0.1:${port}`,
    );
  }
  if (code === noProgram) {
    const problem = `${address.text} cannot be reached: the program ssh is not there; install OpenSSH's client`;
    return new TransportError('unusable', `${problem}${words}`);
  }
  if (/Permission denied|Too many authentication failures|no more authentication methods/i.test(stderr)) {
    const how = isAgain ? ' without asking for a password' : '';
    const message = `ssh is not let in at ${address.text}${how}; try '${sshCommand(address)}'${words}`;
    return isAgain
      ? new TransportError('unusable', message)
      : new ClientError(message, exitCodes.notAuthorised);
  }
  const found = meanings.find((each) => each.words.test(stderr));
  const why = found?.means(address) ?? `ssh ended with exit code ${code}`;
  return new TransportError(found?.fault ?? 'unreached', `${address.text} cannot be reached: ${why}${words}`);
}

/** The error for a connection that the other end of the tunnel refused, in the words of ssh. */
export function explainRefusal({ text, target }: SshAddress, words: string): TransportError {
  const place = `${target.host}:${target.port}`;
  if (/prohibited/.test(words)) {
    const problem = `${text} does not allow ssh to reach ${place} from there (${excerpt(words, 200)})`;
    return new TransportError(
      'unusable',
      `${problem}; its admin can: AllowTcpForwarding and PermitOpen in sshd_config`,
    );
  }
  const why = /Connection refused/.test(words) ? 'nothing listens there' : excerpt(words, 200);
  return new TransportError(
    'unreached',
    `ssh has reached ${text}, but not ${place} from there: ${why}; another place is given as ssh://HOST/[HOST:]PORT`,
  );
}
