import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { monotonicTime } from '../../files/index.js';
import { type SshAddress, type Transport, wasClosed } from '../connection/index.js';
import { TransportError } from '../errors.js';
import { explainRefusal, SshProcess } from './ssh-process.js';

/** Milliseconds to wait for ssh to say why it closed a connection. */
const explaining = 300;

/**
 * A tunnel through the system's own ssh, with the user's keys and configuration. It leads from a socket that only this
 * user can reach to the address of the service as seen from the other host. It begins with `start` and ends with `close`.
 * A tunnel that breaks meanwhile is opened again by the next connection, if ssh can do that without asking a person.
 */
export class SshTunnel implements Transport {
  readonly name: string;
  readonly base: URL;
  #process: SshProcess | null = null;
  #opening: Promise<SshProcess> | null = null;
  #isClosed = false;

  /**
   * @param timeout of a connection to the ssh server, in seconds
   * @param onWords gets what ssh prints while it waits for a person
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
   * Opens the tunnel. ssh may ask a person for a password, or whether a host key is right, so this has no time limit.
   * @throws ClientError in the words of ssh; the reason of the signal if that is aborted
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

  /** What ssh says about a connection that it has closed. */
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
