import { closeSync, constants, openSync, readSync } from 'node:fs';
import { hostname } from 'node:os';
import { oneLine } from '../../contract/quote.js';
import { thisBoot } from '../../runner/process-table.js';

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;

/** Bytes of `serve.lock` that are looked at. */
const longestNote = 4096;

/** Who has the lock, for a person; nothing depends on it. */
export const ownNote = () => ({
  host: hostname(),
  pid: process.pid,
  boot: thisBoot(),
  since: new Date().toISOString(),
});

/** What `serve.lock` says of who has the lock, in words; empty where it says nothing that can be read. */
export function holderInWords(file: string): string {
  let descriptor: number | undefined;
  try {
    // A link, a pipe or a directory of this name must neither be followed nor waited for.
    descriptor = openSync(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    const buffer = Buffer.alloc(longestNote);
    const note = JSON.parse(buffer.toString('utf8', 0, readSync(descriptor, buffer)));
    const { host, pid, since } = Object(note) as Readonly<Record<string, unknown>>;
    if (!Number.isSafeInteger(pid) || typeof host !== 'string' || typeof since !== 'string') return '';
    return ` (process ${pid} on ${oneLine(host).slice(0, 255)}, since ${oneLine(since).slice(0, 40)})`;
  } catch {
    return '';
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}
