import { type FileHandle, open, rm } from 'node:fs/promises';
import path from 'node:path';
import { logTextPath, mediaTypes, redrawEnd } from '../../contract/index.js';
import { type Connection, header } from '../connection/index.js';
import { logName } from '../output-names.js';

/** Maximum size of a log that is stored beside a result, in bytes. */
const maxBytes = 32 << 20;
/** Maximum number of bytes of a followed log that are held in memory. */
const maxFollowed = 4 << 20;
/** Maximum time for fetching a log, in milliseconds. */
const longest = 60_000;

/** The lines of a log that cannot be requested again: KonfAI's server does not number lines. */
export class FollowedLog {
  #lines: string[] = [];
  #bytes = 0;
  #isWhole = true;

  push(line: string, isRedraw: boolean): void {
    const text = `${line}${isRedraw ? redrawEnd : ''}\n`;
    this.#bytes += Buffer.byteLength(text);
    if (this.#bytes > maxFollowed) {
      this.#isWhole = false;
      this.#lines = [];
    } else this.#lines.push(text);
  }

  /** The log as text; null if it is empty or was too long. */
  get text(): string | null {
    return this.#isWhole && this.#lines.length > 0 ? this.#lines.join('') : null;
  }
}

/** Copies a job's log to a file. False if the server does not send it, or it is too long. */
async function copyLog(connection: Connection, jobId: string, file: FileHandle): Promise<boolean> {
  const signal = AbortSignal.any([
    AbortSignal.timeout(longest),
    ...(connection.signal ? [connection.signal] : []),
  ]);
  const reply = await connection.send(logTextPath(jobId), { headers: { accept: mediaTypes.text }, signal });
  const isText = reply.statusCode === 200 && header(reply, 'content-type')?.startsWith(mediaTypes.text);
  if (!isText) {
    await reply.body.dump().catch(() => null);
    return false;
  }
  let bytes = 0;
  for await (const chunk of reply.body as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxBytes) return false;
    await file.write(chunk);
  }
  return bytes > 0;
}

/**
 * Writes a job's log among the files of its result, completely or not at all: as stored on the server, or as it was followed. An
 * output of the app with the same name is not replaced.
 * @returns the name of the file; null if there is none
 * @throws the reason of an interruption
 */
export async function keepLog(
  connection: Connection,
  jobId: string,
  directory: string,
  followed?: FollowedLog,
): Promise<string | null> {
  const target = path.join(directory, logName);
  const file = await open(target, 'wx').catch(() => null);
  if (file === null) return null;
  let isKept = false;
  try {
    isKept = await copyLog(connection, jobId, file).catch(() => false);
    connection.signal?.throwIfAborted();
    const text = isKept ? null : (followed?.text ?? null);
    if (text !== null) {
      await file.truncate(0);
      await file.write(text, 0);
      isKept = true;
    }
  } catch (error) {
    isKept = false;
    connection.signal?.throwIfAborted();
    if (error === connection.signal?.reason) throw error;
  } finally {
    await file.close().catch(() => {
      isKept = false;
    });
    if (!isKept) await rm(target, { force: true });
  }
  return isKept ? logName : null;
}
