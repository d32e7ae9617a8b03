import { rm } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { lowerNiceness, lowerPriority } from '../../../runner/priority.js';
import { isAlive, isSpare, nameRoom } from '../../../runner/process-table.js';
import {
  type SpareMessage,
  spareArgument,
  spareChannel,
  spareTaken,
} from '../../../runner/spare-protocol.js';
import { signal } from '../../../runner/terminate.js';
import { readRunnerRecord } from '../runs/run-files.js';
import { type RunnerProcess, type RunnerProgram, startRunner } from './runner-process.js';

/** Milliseconds that a spare runner may take to claim a job: more than a machine that is busy makes of two. */
const patience = 2000;

/** Removes the directory in which a runner has prepared, once the runner is gone. One that ended without a job has done so. */
async function removePlace(place: string): Promise<void> {
  // What is left is removed by the next server.
  await rm(place, { recursive: true, force: true }).catch(() => {});
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

/** A runner that was started before there is a job for it. It ends when its channel is closed, as by the server's death. */
export class Spare implements RunnerProcess {
  readonly process: RunnerProcess['process'];
  readonly exited: Promise<unknown>;
  readonly #channel: Socket;

  private constructor({ process, exited }: RunnerProcess, place: string) {
    this.process = process;
    this.exited = exited.then(() => removePlace(place));
    this.#channel = process.stdio[spareChannel] as Socket;
    // Its end is seen by its exit.
    this.#channel.on('error', () => {});
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
    const answer = this.#answer();
    // It may have been stopped while it had nothing to do.
    this.process.kill('SIGCONT');
    this.#tell({ job });
    lowerPriority(this.process);
    const isTaken = await Promise.race([answer, delay(patience, false, { ref: false })]);
    this.#channel.destroy();
    if (isTaken || isClaimed()) return true;
    this.process.kill('SIGKILL');
    await this.#end();
    // One that has claimed it at the last moment is lost with it, as any runner is.
    return isClaimed();
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

  /** Resolves when it has claimed its job, or cannot any more. */
  #answer(): Promise<boolean> {
    return new Promise((resolve) => {
      if (this.#channel.destroyed) resolve(false);
      this.#channel.on('data', (chunk: Buffer) => {
        if (chunk.toString().includes(spareTaken)) resolve(true);
      });
      this.#channel.once('close', () => resolve(false));
    });
  }
}
