import { mkdirSync, rmSync } from 'node:fs';
import { Socket } from 'node:net';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { writeJsonFile } from '../files/atomic-json.js';
import { identify, nameRunner, nameSpare } from './process-table.js';
import { type RunnerRecord, runFiles } from './protocol.js';
import { rehearse } from './rehearse.js';
import { type SpareMessage, spareChannel, spareTaken } from './spare-protocol.js';

/** A job that the server has handed to a spare runner. */
export interface HandedOver {
  /** The job's directory. */
  readonly directory: string;
  /** A FIFO that nobody has opened, on the file system of the jobs. It may be missing. */
  readonly fifo: string;
  /** Tells the server that the job is claimed, and lets go of it. */
  readonly tellTaken: () => void;
  /** Lets go of the server. */
  readonly leave: () => void;
}

/** What the server has written; undefined for a part of a line, which it leaves if it dies meanwhile. */
function messageIn(line: string): SpareMessage | undefined {
  try {
    return JSON.parse(line) as SpareMessage;
  } catch {
    return undefined;
  }
}

/** Does something, and says whether that was possible. */
function succeeds(action: () => void): boolean {
  try {
    action();
    return true;
  } catch {
    return false;
  }
}

const fifoIn = (place: string): string => path.join(place, 'fifo');

/**
 * Gets ready in a directory of its own. What fails here only takes longer later.
 * @param place does not exist yet
 */
async function prepare(place: string, channel: Socket): Promise<void> {
  // A server that is gone by now is seen to be gone.
  await nextTurn();
  if (channel.destroyed || channel.readableEnded) return;
  const rehearsal = path.join(place, 'rehearsal');
  try {
    mkdirSync(place, { mode: 0o700 });
    await rehearse(rehearsal, fifoIn(place));
    // A later server ends it by this, if it does not see the death of its own because it is stopped.
    writeJsonFile(
      runFiles(place).record,
      { runner: identify(process.pid), command: null } satisfies RunnerRecord,
      {
        isKept: false,
      },
    );
  } catch {
  } finally {
    succeeds(() => rmSync(rehearsal, { recursive: true, force: true }));
  }
}

/**
 * Becomes the runner of a job for all who look. Done before the job is claimed: if the server dies then, the next one finds
 * the runner by its name.
 * @throws the system's error if the directory is gone
 */
function becomeRunnerOf(directory: string): void {
  process.chdir(directory);
  nameRunner(directory);
}

/**
 * Waits for the job of a spare runner. A server that dies, or wants the runner no longer, closes the channel.
 * @param stop aborted to end a runner that has no job yet
 * @returns undefined if there will be none; then nothing of it is left
 */
export function waitForJob(stop: AbortSignal): Promise<HandedOver | undefined> {
  nameSpare();
  const channel = new Socket({ fd: spareChannel });
  const leave = () => void channel.destroy();
  // A channel fails when the server dies.
  channel.on('error', leave);
  stop.addEventListener('abort', leave);
  const tellTaken = () => void channel.write(`${spareTaken}\n`, leave);
  let place = '';
  let prepared = Promise.resolve();
  let isHanded = false;
  return new Promise((resolve) => {
    const become = (directory: string) => {
      if (stop.aborted) return;
      stop.removeEventListener('abort', leave);
      isHanded = succeeds(() => becomeRunnerOf(directory));
      if (isHanded) resolve({ directory, fifo: fifoIn(place), tellTaken, leave });
      else leave();
    };
    createInterface({ input: channel }).on('line', (line) => {
      const { place: given, job } = messageIn(line) ?? {};
      if (given !== undefined) {
        place = given;
        prepared = prepare(place, channel);
      }
      if (job !== undefined) void prepared.then(() => become(job));
    });
    channel.once('close', () => {
      // A rehearsal under way ends first, and a job that was handed over before is taken.
      void prepared.then(() => {
        if (isHanded) return;
        succeeds(() => rmSync(place, { recursive: true, force: true }));
        resolve(undefined);
      });
    });
  });
}
