/** A thread of the server that hashes files of uploads while they grow, so that the event loop does not. */
import { createHash, type Hash } from 'node:crypto';
import { closeSync, openSync, readSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { parentPort } from 'node:worker_threads';
import type { HashAnswer, HashOrder } from './file-hashes.js';

/** Bytes between two looks at the messages. */
const piece = 1 << 20;
/** Files whose hashes are kept while nothing comes of them; another one is read again from its start. */
const mostFollowed = 100;

interface Followed {
  readonly hash: Hash;
  /** Bytes that are hashed. */
  at: number;
  /** Bytes that the file has. */
  to: number;
  isBusy: boolean;
}

const buffer = Buffer.allocUnsafe(piece);
/** The one that was used last stands last. */
const files = new Map<number, Followed>();

function followed(id: number): Followed {
  const known = files.get(id) ?? { hash: createHash('sha256'), at: 0, to: 0, isBusy: false };
  files.delete(id);
  files.set(id, known);
  for (const [other, { isBusy }] of files) {
    if (files.size <= mostFollowed) break;
    if (!isBusy && other !== id) files.delete(other);
  }
  return known;
}

/** Hashes what there is of a file, in turns with others. */
async function follow(file: string, state: Followed): Promise<void> {
  state.isBusy = true;
  const descriptor = openSync(file, 'r');
  try {
    while (state.at < state.to) {
      const read = readSync(descriptor, buffer, 0, Math.min(piece, state.to - state.at), state.at);
      if (read === 0) throw new Error(`The file has ${state.at} bytes, not ${state.to}`);
      state.hash.update(buffer.subarray(0, read));
      state.at += read;
      await setImmediate();
    }
  } finally {
    closeSync(descriptor);
    state.isBusy = false;
  }
}

const answer = (told: HashAnswer) => parentPort?.postMessage(told);

async function obey({ id, file, size, then }: HashOrder): Promise<void> {
  if (then === 'end') {
    files.delete(id);
    return;
  }
  const state = followed(id);
  state.to = Math.max(state.to, size);
  if (!state.isBusy) await follow(file, state);
  if (then === 'wait') return;
  // The order before this one may still be hashing.
  while (state.isBusy) await setImmediate();
  files.delete(id);
  answer({ id, sha256: state.at === size ? state.hash.digest('hex') : null, problem: null });
}

parentPort?.on('message', (order: HashOrder) => {
  obey(order).catch((cause: unknown) => {
    files.delete(order.id);
    answer({ id: order.id, sha256: null, problem: String(cause) });
  });
});
