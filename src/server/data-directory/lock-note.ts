import { closeSync, constants, openSync, readSync } from 'node:fs';
import { hostname } from 'node:os';
import { oneLine } from '../../contract/quote.js';
import { thisBoot } from '../../files/boot-clock.js';

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;

/** Bytes of `serve.lock` that are read. */
const longestNote = 4096;

/**
 * Who has the lock, for people to read. No decision depends on it.
 * @param copy the copy of the directory on which the server works; null if it works on the directory itself
 */
export const ownNote = (copy: string | null) => ({
  host: hostname(),
  pid: process.pid,
  boot: thisBoot(),
  since: new Date().toISOString(),
  ...(copy === null ? {} : { copy }),
});

/** Who has the lock according to `serve.lock`, in words; empty if that cannot be read. */
export function holderInWords(file: string): string {
  let descriptor: number | undefined;
  try {
    // Must not follow a link, nor block on a FIFO, of this name.
    descriptor = openSync(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    const buffer = Buffer.alloc(longestNote);
    const note = JSON.parse(buffer.toString('utf8', 0, readSync(descriptor, buffer)));
    const { host, pid, since, copy } = Object(note) as Readonly<Record<string, unknown>>;
    if (!Number.isSafeInteger(pid) || typeof host !== 'string' || typeof since !== 'string') return '';
    const work = typeof copy === 'string' ? `, on its copy ${oneLine(copy)}` : '';
    return ` (process ${pid} on ${oneLine(host).slice(0, 255)}, since ${oneLine(since).slice(0, 40)}${work})`;
  } catch {
    return '';
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}
