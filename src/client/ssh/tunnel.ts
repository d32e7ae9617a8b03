import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { monotonicTime } from '../../files/index.js';
import { type SshAddress, type Transport, wasClosed } from '../connection/index.js';
import { TransportError } from '../errors.js';
import { explainRefusal, SshProcess } from './ssh-process.js';

/** Milliseconds to wait for ssh to say why it closed a connection. */
const explaining = 300;

/**
 * A tunnel through the system's own ssh, with the user's keys and configuration. It leads from a socket that only this user can
 * reach to the address of the service as seen from the other host. It is opened by `start` and closed by `close`. If the tunnel
 * breaks, the next connection reopens it, provided that ssh can do so without asking the user.
 */
export class SshTunnel implements Transport {
  readonly name: string;
  readonly base: URL;
  #process: SshProcess | null = null;
  #opening: Promise<SshProcess> | null = null;
  #isClosed = false;

  /**
   * @param timeout for connecting to the ssh server, in seconds
   * @param onWords called with what ssh prints while it waits for the user
   */
  constructor(
    private readonly address: SshAddress,
    private readonly timeout: number,
    private readonly onWords: (line: string) => void,
  ) {
    this.name = address.text;
    this.base = new URL(`http://${address.target.host}:${address.target.port}`);
  }

  /**
   * Opens the tunnel. ssh may ask the user for a password, or to confirm a host key, so there is no time limit.
   * @throws ClientError with ssh's message; the reason of the signal if it is aborted
   */
  async start(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const aborted = new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    });
    await Promise.race([this.#ready(), aborted]);
  }

  readonly open = async (): Promise<Socket> => {
    const { socket: path } = await this.#ready();
    return new Promise((resolve, reject) => {
      const socket = connect({ path }, () => resolve(socket));
      socket.once('error', (cause) => {
        reject(
          new TransportError('broken', `The ssh connection to ${this.name} broke: ${cause.message}`, {
            cause,
          }),
        );
      });
    });
  };

  /** Explains a closed connection by what ssh says about it. */
  async explain(error: unknown): Promise<Error | null> {
    const ssh = this.#process;
    if (ssh === null || !wasClosed(error)) return null;
    const deadline = monotonicTime() + explaining;
    for (;;) {
      const words = ssh.takeRefusal();
      if (words !== null) return explainRefusal(this.address, words);
      if (ssh.hasEnded) return new TransportError('broken', `The ssh connection to ${this.name} broke`);
      if (monotonicTime() > deadline) return null;
      await delay(10);
    }
  }

  async #ready(): Promise<SshProcess> {
    if (this.#isClosed) throw new TransportError('broken', `The ssh connection to ${this.name} is closed`);
    if (this.#process?.hasEnded === false && this.#opening === null) return this.#process;
    this.#opening ??= this.#start().finally(() => {
      this.#opening = null;
    });
    return this.#opening;
  }

  async #start(): Promise<SshProcess> {
    const isAgain = this.#process !== null;
    const ssh = new SshProcess(this.address, { timeout: this.timeout, isAgain, onWords: this.onWords });
    this.#process = ssh;
    await ssh.ready();
    return ssh;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#process?.close();
  }
}
