import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { excerpt, exitCodes, tokenVariable } from '../../contract/index.js';
import { type SshAddress, sshCommand } from '../connection/index.js';
import { ClientError, TransportError, type TransportFault } from '../errors.js';

/**
 * A shell script that runs ssh and ends it in time: `sh -c SCRIPT sh DIRECTORY SSH ARGUMENTS...`. Ctrl-C and a closed
 * terminal reach every program of the terminal; the tunnel must outlive them, since the command then asks the server to kill
 * its job. So ssh ignores these, and ends when descriptor 3 does, which only the command holds open: however the command ends,
 * also by SIGKILL, ssh ends after it, and the directory of its socket is removed. ssh keeps the terminal, where it
 * asks for passwords.
 */
const tunnelScript = `
trap '' INT HUP QUIT
directory=$1
shift
"$@" </dev/null 3<&- &
ssh=$!
trap 'kill "$ssh"' TERM
{ read -r word <&3; kill "$ssh"; } 2>/dev/null &
watcher=$!
wait "$ssh"
code=$?
kill "$watcher" 2>/dev/null
rm -rf "$directory"
exit "$code"
`;

/** The exit code of a shell that does not find a program. */
const noProgram = 127;

/** Lines from ssh that do not explain why it ended. */
const chatter = /^(Warning: Permanently added|debug\d|\*\* )/;

/** The last words of ssh, which explain its exit. */
function lastWords(stderr: string): string {
  const lines = stderr.split(/\r?\n/).map((line) => line.trim());
  const said = lines.filter((line) => line !== '' && !chatter.test(line)).slice(-2);
  return said.length > 0 ? ` (ssh says: ${excerpt(said.join('; '), 400)})` : '';
}

/** Explanations for ssh's messages. */
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
 * Why ssh ended before there was a tunnel, or before the tunnel was closed.
 * @param code of its end; null if it could not be run, as on Windows, which has no shell of this kind
 * @param isAgain whether it was a reconnect, at which nobody is asked for a password
 */
function explainSsh(
  address: SshAddress,
  { code, stderr, isAgain }: { code: number | null; stderr: string; isAgain: boolean },
): ClientError {
  const words = lastWords(stderr);
  if (code === null) {
    const { port } = address.target;
    const byHand = `${sshCommand(address)} -N -L ${port}:${address.target.host}:${port}`;
    return new TransportError(
      'unusable',
      `An address of ssh:// needs a Unix shell, and none can be started here; run '${byHand}' in another ` +
        `terminal, and use --server http://127.0.0.1:${port}`,
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

interface SshOptions {
  /** Of a connection to the ssh server, in seconds. */
  readonly timeout: number;
  /** A reconnect: nobody is asked for anything. */
  readonly isAgain: boolean;
  /** Called with what ssh prints while it waits for a person, such as where to log in. */
  readonly onWords: (line: string) => void;
}

/** Most characters that are kept of what ssh says. */
const maxChars = 16_384;
/** When ssh has said something and gets no further for this long, in milliseconds, it waits for a person. */
const thinking = 500;
/** How often the socket is looked for, in milliseconds. */
const interval = 20;
/** Longest wait for the end of ssh once it was asked to end, in milliseconds. */
const ending = 3000;

/** Most characters of a socket's directory: the system allows 104 bytes for the whole path. */
const maxDirectoryLength = 80;

/** A new directory for a socket, which nobody else can enter, with a path that ssh takes as it stands. */
function makeDirectory(): string {
  const usual = tmpdir();
  const isPlain = /^[\w./-]+$/.test(usual) && usual.length <= maxDirectoryLength;
  return mkdtempSync(path.join(isPlain ? usual : '/tmp', 'remote-app-ssh-'));
}

/**
 * The arguments of ssh. The user's configuration for the host applies, except for what would change the tunnel itself.
 */
function sshArguments(socket: string, address: SshAddress, { timeout, isAgain }: SshOptions): string[] {
  const { host, user, port, target } = address;
  const options = [
    // A shared connection would keep the tunnel open after this command ends.
    'ControlPath=none',
    'ClearAllForwardings=no',
    // Tunnels from the configuration may be open in another ssh; ours is recognised by its socket.
    'ExitOnForwardFailure=no',
    `ConnectTimeout=${Math.ceil(timeout)}`,
    // A connection that dies silently ends within a minute.
    'ServerAliveInterval=15',
    'ServerAliveCountMax=3',
    ...(isAgain ? ['BatchMode=yes'] : []),
  ];
  return [
    '-N',
    '-T',
    ...options.flatMap((option) => ['-o', option]),
    ...['-L', `${socket}:${target.host}:${target.port}`],
    ...(port === null ? [] : ['-p', String(port)]),
    ...(user === null ? [] : ['-l', user]),
    // No argument after this is read as a flag.
    '--',
    host,
  ];
}

/**
 * One run of ssh, with the socket that its tunnel begins at. It is no program for `runProgram`, which has a time limit, and gives
 * each a session of its own: without the terminal ssh could not ask for a password.
 */
export class SshProcess {
  readonly socket: string;
  /** Resolves with its exit code when it has ended; with null if it could not be run. */
  readonly ended: Promise<number | null>;
  readonly #child: ChildProcess;
  #hasEnded = false;
  #stderr = '';
  #unread = '';
  #isReady = false;

  constructor(
    private readonly address: SshAddress,
    private readonly options: SshOptions,
  ) {
    const directory = makeDirectory();
    this.socket = path.join(directory, 'socket');
    const words = ['ssh', ...sshArguments(this.socket, address, options)];
    const { [tokenVariable]: _, ...env } = process.env;
    this.#child = spawn('/bin/sh', ['-c', tunnelScript, 'sh', directory, ...words], {
      env,
      stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
    });
    this.ended = new Promise((resolve) => {
      const end = (code: number | null) => {
        this.#hasEnded = true;
        // The script has removed it, unless it was killed or never ran.
        rmSync(directory, { recursive: true, force: true });
        resolve(code);
      };
      this.#child.once('error', () => end(null));
      // A process ended by a signal has no exit code; a shell would report 128 plus the number.
      this.#child.once('close', (code) => end(code ?? 128));
    });
    const lifeline = this.#child.stdio[3] as Writable | null;
    lifeline?.on('error', () => {});
    // Nothing is read from it, so it would not notice the end of the script.
    this.#child.once('exit', () => lifeline?.destroy());
    this.#listen();
    // A command that ends without closing the tunnel ends all the same, and the tunnel with it.
    this.#child.unref();
    for (const pipe of this.#child.stdio) (pipe as { unref?: () => void } | null)?.unref?.();
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** Waits until the tunnel is open. @throws ClientError that says why it is not */
  async ready(): Promise<void> {
    while (!existsSync(this.socket)) {
      if (this.#hasEnded) throw this.explain(await this.ended);
      await delay(interval);
    }
    this.#isReady = true;
  }

  /** Why it ended. */
  explain(code: number | null): Error {
    return explainSsh(this.address, { code, stderr: this.#stderr, isAgain: this.options.isAgain });
  }

  /**
   * The words with which ssh last said that a connection through the tunnel failed; null if none did since the last call.
   */
  takeRefusal(): string | null {
    const found = [...this.#unread.matchAll(/^channel \d+: open failed: (.*)$/gm)].at(-1);
    if (!found) return null;
    this.#unread = '';
    return (found[1] ?? '').trim();
  }

  #listen(): void {
    const stderr = this.#child.stderr as Readable;
    let shown = 0;
    let timer: NodeJS.Timeout | undefined;
    const show = () => {
      if (this.#isReady || this.#hasEnded) return;
      const lines = this.#stderr.slice(shown).split('\n');
      shown = this.#stderr.length;
      for (const line of lines) if (line.trim() !== '') this.options.onWords(line.trimEnd());
    };
    stderr.setEncoding('utf8').on('data', (piece: string) => {
      if (this.#stderr.length < maxChars) this.#stderr += piece;
      this.#unread = `${this.#unread}${piece}`.slice(-maxChars);
      clearTimeout(timer);
      timer = setTimeout(show, thinking).unref();
    });
    stderr.on('error', () => {});
    void this.ended.then(() => clearTimeout(timer));
  }

  /** Ends ssh, and waits until it has ended. */
  async close(): Promise<void> {
    (this.#child.stdio[3] as Writable | null)?.destroy();
    if (this.#hasEnded) return;
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), ending);
    await this.ended;
    clearTimeout(timer);
  }
}
