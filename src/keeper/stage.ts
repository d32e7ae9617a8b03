import path from 'node:path';
import type { Duplex } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';

/** Milliseconds that it may take to show a job, or to hide it. */
const patience = 60_000;

/** Shows the jobs of a worker to its sandbox, one after the other. Does nothing for a worker without one. */
export class JobStage {
  #answer: (text: string) => void = () => {};

  /** @param channel to the process that mounts what is to be seen; null without a sandbox */
  constructor(private readonly channel: Duplex | null) {
    let text = '';
    channel?.on('data', (chunk: Buffer) => {
      text += chunk;
      for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n')) {
        this.#answer(text.slice(0, end));
        text = text.slice(end + 1);
      }
    });
    channel?.on('error', () => {});
    channel?.once('close', () => this.#answer(''));
  }

  /** Shows the job of a working directory. @returns whether it can be seen */
  show(workspace: string): Promise<boolean> {
    return this.#ask('show', workspace);
  }

  /** Hides it again. @returns whether it cannot be seen any more */
  hide(workspace: string): Promise<boolean> {
    return this.#ask('hide', workspace);
  }

  /** The process that mounts ends. */
  close(): void {
    this.channel?.destroy();
  }

  async #ask(verb: string, workspace: string): Promise<boolean> {
    if (this.channel === null) return true;
    const job = path.basename(path.dirname(workspace));
    // It becomes a word of a shell's line.
    if (this.channel.destroyed || !/^[\w-]+$/.test(job)) return false;
    const answered = new Promise<string>((resolve) => {
      this.#answer = resolve;
    });
    this.channel.write(`${verb} ${job}\n`);
    return (await Promise.race([answered, delay(patience, '', { ref: false })])) === verb;
  }
}
