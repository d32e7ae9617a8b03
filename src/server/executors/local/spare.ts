import { rm } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { lowerNiceness, lowerPriority } from '../../../runner/priority.js';
import { isAlive, isSpare, nameRoom, readStatus } from '../../../runner/process-table.js';
import {
  type SpareMessage,
  spareArgument,
  spareChannel,
  spareReady,
  spareTaken,
} from '../../../runner/spare-protocol.js';
import { signal } from '../../../runner/terminate.js';
import { readRunnerRecord } from '../index.js';
import { type RunnerProcess, type RunnerProgram, startRunner } from './runner-process.js';

/** Milliseconds that a spare runner may take to claim a job: more than a machine that is busy makes of two. */
const patience = 2000;

/** Removes the directory in which a runner has prepared, once the runner is gone. One that ended without a job has done so. */
async function removePlace(place: string): Promise<void> {
  // The program that makes its FIFOs may outlive it for a moment. What is left is removed by the next server.
  const retries = { maxRetries: 10, retryDelay: 20 };
  await rm(place, { recursive: true, force: true, ...retries }).catch(() => {});
}

/**
 * Ends the runner that has prepared there, if it still waits for a job, and removes the directory. A runner whose server dies
 * ends by itself, but not while it is stopped.
 */
export async function removeLeftPlace(place: string): Promise<void> {
  try {
    const runner = readRunnerRecord(place)?.runner;
    if (runner && isAlive(runner) && isSpare(runner.pid)) signal(runner.pid, 'SIGKILL');
  } catch {
    // It cannot be told who it was, and whoever continues it sees it end.
  }
  await removePlace(place);
}

/** Whether a runner has been stopped; false where that cannot be told, and one that is then does not claim its job. */
function isStopped({ process: { pid } }: RunnerProcess): boolean {
  try {
    return pid !== undefined && readStatus(pid)?.isStopped === true;
  } catch {
    return false;
  }
}

/**
 * A runner that was started before there is a job for it. Without a job it ends when its channel is closed, as by the server's
 * death. It is ready for another job after one that was short.
 */
export class Spare implements RunnerProcess {
  readonly process: RunnerProcess['process'];
  readonly exited: Promise<unknown>;
  readonly #channel: Socket;
  /** What it has said since it was given its job. */
  #said = '';
  /** Ends the channel of one whose job is not short. */
  #headStart: NodeJS.Timeout | undefined;

  private constructor({ process, exited }: RunnerProcess, place: string) {
    this.process = process;
    this.exited = exited.then(() => removePlace(place));
    this.#channel = process.stdio[spareChannel] as Socket;
    // Its end is seen by its exit.
    this.#channel.on('error', () => {});
    this.#channel.on('data', (chunk: Buffer) => {
      this.#said += chunk.toString();
    });
    this.#channel.unref();
    this.#tell({ place });
  }

  /**
   * @param place a directory for it to prepare in, which does not exist yet, on the file system of the jobs
   * @throws the system's error if it could not be started
   */
  static async start(program: RunnerProgram, place: string): Promise<Spare> {
    // Its second argument is the room for its later name.
    const words = [spareArgument, ' '.repeat(nameRoom)];
    // It may wait for days, and must keep no file system from being unmounted meanwhile.
    const started = await startRunner(program, words, '/', 'channel');
    lowerNiceness(started.process);
    return new Spare(started, place);
  }

  /**
   * Hands it a job.
   * @param isClaimed whether somebody has claimed the job: a busy machine may be slow to say so
   * @returns whether it has claimed the job. If it has not, it is gone, and cannot claim it any more
   */
  async give(job: string, isClaimed: () => boolean): Promise<boolean> {
    // One that was stopped is not continued: a signal that waits for it to go on may be one that ends it, with the job.
    if (!isStopped(this) && ((await this.#takes(job)) || isClaimed())) return true;
    this.#channel.destroy();
    this.process.kill('SIGKILL');
    await this.#end();
    // One that has claimed it at the last moment is lost with it, as any runner is.
    return isClaimed();
  }

  /** Tells it of a job. Resolves with whether it has said in time that it has claimed it. */
  #takes(job: string): Promise<boolean> {
    this.#said = '';
    const answer = this.#says(spareTaken);
    this.#tell({ job });
    // From then on it has the priority of a job: the next one would not start as others do.
    this.#headStart = lowerPriority(this.process, () => this.#channel.destroy());
    return Promise.race([answer, delay(patience, false, { ref: false })]);
  }

  /** Resolves when its job is over and it is ready for another one; with false if it will not be, and ends. */
  async isBack(): Promise<boolean> {
    const isReady = await this.#says(spareReady);
    if (isReady) clearTimeout(this.#headStart);
    return isReady;
  }

  /** Ends it. Resolves when it is gone. */
  async dismiss(): Promise<void> {
    this.#channel.destroy();
    await this.#end();
  }

  /** Waits for its end, and kills it if that does not come. */
  async #end(): Promise<void> {
    // Otherwise a server that stops would have nothing left to wait for.
    this.process.ref();
    await Promise.race([this.exited, delay(patience, undefined, { ref: false })]);
    this.process.kill('SIGKILL');
    await Promise.race([this.exited, delay(patience, undefined, { ref: false })]);
    this.process.unref();
  }

  #tell(message: SpareMessage): void {
    this.#channel.write(`${JSON.stringify(message)}\n`);
  }

  /** Resolves when it has said something about its job, or cannot any more. */
  #says(word: string): Promise<boolean> {
    return new Promise((resolve) => {
      const settle = (hasSaid: boolean) => {
        this.#channel.off('data', onData).off('close', onClose);
        resolve(hasSaid);
      };
      const onData = () => {
        if (this.#said.includes(word)) settle(true);
      };
      const onClose = () => settle(false);
      this.#channel.on('data', onData).once('close', onClose);
      if (this.#channel.destroyed) settle(false);
    });
  }
}
