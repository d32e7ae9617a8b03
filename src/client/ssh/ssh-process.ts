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
 * A shell script that runs ssh and ends it in time: `sh -c SCRIPT sh DIRECTORY SSH ARGUMENTS...`. Ctrl-C and closing the terminal
 * signal every program on the terminal, but the tunnel must outlive these signals, because the command then asks the server to
 * kill its job. The script and ssh therefore ignore them, and ssh ends when descriptor 3 is closed, which only the command holds
 * open: however the command ends, even by SIGKILL, ssh ends after it, and the directory of its socket is removed. ssh keeps the
 * terminal, to ask for passwords.
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

/** The last message of ssh, which explains why it ended. */
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
 * Why ssh ended before the tunnel was open, or before it was closed.
 * @param code the exit code; null if ssh could not be run, as on Windows, which has no such shell
 * @param isAgain whether this was a reconnect, which never asks the user for a password
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

/** The error for a connection that the other end of the tunnel refused, based on ssh's message. */
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
  /** Time limit for connecting to the ssh server, in seconds. */
  readonly timeout: number;
  /** Whether this is a reconnect, which never asks the user for anything. */
  readonly isAgain: boolean;
  /** Called with what ssh prints while it waits for the user, such as where to log in. */
  readonly onWords: (line: string) => void;
}

/** Maximum length of ssh's output that is kept, in characters. */
const maxChars = 16_384;
/** Milliseconds without progress after a message, after which ssh is assumed to be waiting for the user. */
const thinking = 500;
/** Milliseconds between two checks for the socket. */
const interval = 20;
/** Maximum wait for ssh to end once it was asked to, in milliseconds. */
const ending = 3000;

/** Maximum length of a socket directory's path, in characters: the system allows 104 bytes for the whole path. */
const maxDirectoryLength = 80;

/** Creates a directory for a socket that nobody else can enter, with a path that ssh accepts without quoting. */
function makeDirectory(): string {
  const usual = tmpdir();
  const isPlain = /^[\w./-]+$/.test(usual) && usual.length <= maxDirectoryLength;
  return mkdtempSync(path.join(isPlain ? usual : '/tmp', 'remote-app-ssh-'));
}

/**
 * The arguments of ssh. The user's configuration for the host applies, except for options that would change the tunnel itself.
 */
function sshArguments(socket: string, address: SshAddress, { timeout, isAgain }: SshOptions): string[] {
  const { host, user, port, target } = address;
  const options = [
    // A shared connection would keep the tunnel open after this command ends.
    'ControlPath=none',
    'ClearAllForwardings=no',
    // Tunnels from the configuration may already be open in another ssh; the command's own is recognised by its socket.
    'ExitOnForwardFailure=no',
    `ConnectTimeout=${Math.ceil(timeout)}`,
    // Ends a connection that dies silently within a minute.
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
    // No later argument is read as a flag.
    '--',
    host,
  ];
}

/**
 * One run of ssh, with the socket at which its tunnel begins. `runProgram` is not suitable: it has a time limit, and gives each
 * program its own session, but ssh needs the terminal to ask for a password.
 */
export class SshProcess {
  readonly socket: string;
  /** Resolves with the exit code when ssh has ended; with null if it could not be run. */
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
        // The script removes the directory itself, unless it was killed or never ran.
        rmSync(directory, { recursive: true, force: true });
        resolve(code);
      };
      this.#child.once('error', () => end(null));
      // A process ended by a signal has no exit code; a shell would report 128 plus the number.
      this.#child.once('close', (code) => end(code ?? 128));
    });
    const lifeline = this.#child.stdio[3] as Writable | null;
    lifeline?.on('error', () => {});
    // Nothing is read from this pipe, so it would not notice the end of the script.
    this.#child.once('exit', () => lifeline?.destroy());
    this.#listen();
    // A command that ends without closing the tunnel must still be able to exit, which ends the tunnel too.
    this.#child.unref();
    for (const pipe of this.#child.stdio) (pipe as { unref?: () => void } | null)?.unref?.();
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** Waits until the tunnel is open. @throws ClientError that says why it failed to open */
  async ready(): Promise<void> {
    while (!existsSync(this.socket)) {
      if (this.#hasEnded) throw this.explain(await this.ended);
      await delay(interval);
    }
    this.#isReady = true;
  }

  /** Why ssh ended. */
  explain(code: number | null): Error {
    return explainSsh(this.address, { code, stderr: this.#stderr, isAgain: this.options.isAgain });
  }

  /** ssh's latest message about a failed connection through the tunnel; null if there is none since the last call. */
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
