import type { FileHandle } from 'node:fs/promises';
import type { Writable } from 'node:stream';
import { exitCodes, quoteName } from '../../contract/index.js';
import { errorCode } from '../../files/index.js';
import { AnswerError, type Connection, header, type Patience, type Reply } from '../connection/index.js';
import { ClientError, isTransient, TransportError, WriteError, withWriteErrors } from '../errors.js';
import type { Reporter } from '../reporter.js';

/**
 * Where downloaded bytes go. Failed writes are thrown as a `WriteError`, so that they are not mistaken for a broken
 * connection.
 */
export interface Sink {
  /**
   * Moves to position `offset` of `total` bytes (0 if unknown). False if the sink cannot go back. May throw to refuse the size.
   */
  seek(offset: number, total: number): Promise<boolean>;
  /** Writes a piece. Resolves when the next one can be written, or with false if the reader is gone. */
  write(chunk: Buffer): Promise<boolean>;
}

/**
 * Writes into an open file, which can start over.
 * @param name of the file, as the user knows it
 * @param next what to do once the file can be written
 * @param checkRoom throws if the disk has not enough space for that many bytes
 */
export function fileSink(
  file: FileHandle,
  name: string,
  next: string,
  checkRoom: (bytes: number) => Promise<void>,
): Sink {
  let position = 0;
  return {
    seek: (offset, total) =>
      withWriteErrors(name, next, async () => {
        if (offset === 0) await checkRoom(total);
        position = offset;
        await file.truncate(offset);
        return true;
      }),
    write: (chunk) =>
      withWriteErrors(name, next, async () => {
        for (let done = 0; done < chunk.length; ) {
          const { bytesWritten } = await file.write(chunk, done, chunk.length - done, position);
          done += bytesWritten;
          position += bytesWritten;
        }
        return true;
      }),
  };
}

/** Writes into a pipe, which cannot go back. A reader that closes the pipe ends the download without an error. */
export function streamSink(stream: Writable, name = 'stdout', next = 'run the command again'): Sink {
  let position = 0;
  return {
    async seek(offset) {
      return offset === position;
    },
    write: (chunk) =>
      new Promise((resolve, reject) => {
        stream.write(chunk, (error) => {
          position += chunk.length;
          if (!error) resolve(true);
          else if (errorCode(error) === 'EPIPE') resolve(false);
          else reject(new WriteError(name, error, next));
        });
      }),
  };
}

/** Repeats the request of a download with these additional headers. Throws for every refusal but 416. */
export type DownloadRequest = (
  headers: Readonly<Record<string, string>>,
  patience: Patience,
) => Promise<Reply>;

/** How many times in a row a download may break without making progress. */
const failuresAllowed = 6;

/** The answer's `ETag`, if it is a strong one that can be sent back. */
function strongTag(reply: Reply): string | undefined {
  const tag = header(reply, 'etag') ?? '';
  return /^"[\x21\x23-\x7e]{0,200}"$/.test(tag) ? tag : undefined;
}

/** The first byte and the whole size in the `Content-Range` of a 206. */
function contentRange(reply: Reply): { start: number; total: number } | null {
  const match = /^bytes (\d+)-\d+\/(\d+)$/.exec(header(reply, 'content-range') ?? '');
  return match ? { start: Number(match[1]), total: Number(match[2]) } : null;
}

/**
 * Downloads an answer into `sink`. A download that breaks continues where it stopped (`Range`) as long as it is still the same
 * file (`If-Range` with its `ETag`); otherwise it starts over. If the server becomes unreachable, it is retried for as long as
 * the connection has patience.
 * @param request requests the rest, or the whole file
 * @returns the number of bytes, or null if the sink's reader is gone
 */
export async function download(
  connection: Connection,
  answer: Reply,
  request: DownloadRequest,
  sink: Sink,
  reporter: Pick<Reporter, 'note' | 'waiting' | 'progress'>,
): Promise<number | null> {
  let offset = 0;
  let tag: string | undefined;
  let failures = 0;
  /** Total size in bytes; 0 if unknown. */
  let total = 0;
  /** The furthest position reached by any attempt. Starting over and breaking earlier is not progress. */
  let farthest = 0;
  const patience = connection.patience(reporter);
  for (let first: Reply | null = answer; ; first = null) {
    let hasBegun = false;
    try {
      const resume = offset > 0 ? tag : undefined;
      const headers = resume === undefined ? {} : { range: `bytes=${offset}-`, 'if-range': resume };
      const reply: Reply = first ?? (await request(headers, patience));
      hasBegun = true;
      patience.answered();
      const range = reply.statusCode === 206 ? contentRange(reply) : null;
      const goesOn = resume !== undefined && range?.start === offset && strongTag(reply) === resume;
      if (reply.statusCode !== 200 && !goesOn) {
        // The server sent a range that was not requested, or the range no longer exists: start over.
        await reply.body.dump();
        tag = undefined;
        throw new TransportError('broken', `${connection.server} cannot continue the download`);
      }
      const type = header(reply, 'content-type') ?? '';
      if (/html|json/i.test(type)) {
        await reply.body.dump().catch(() => null);
        throw new AnswerError(connection.server, `sent ${quoteName(type)} where an archive was asked for`);
      }
      const start = goesOn ? offset : 0;
      total = range?.total ?? Number(header(reply, 'content-length') ?? 0);
      if (!(await sink.seek(start, total))) {
        await reply.body.dump();
        throw new ClientError(
          'The download was interrupted and cannot continue; start it again',
          exitCodes.notReached,
        );
      }
      offset = start;
      tag = strongTag(reply);
      for await (const chunk of reply.body as AsyncIterable<Buffer>) {
        if (!(await sink.write(chunk))) return null;
        offset += chunk.length;
        if (offset > farthest) {
          farthest = offset;
          failures = 0;
          patience.renew();
        }
        reporter.progress('Downloading', offset, total);
      }
      if (total > 0 && offset !== total) {
        throw new TransportError('broken', `The download ended after ${offset} of ${total} bytes`);
      }
      return offset;
    } catch (cause) {
      const error = connection.explain(cause);
      // A connection that ends right after the last byte has lost nothing.
      if (hasBegun && total > 0 && offset === total && isTransient(error)) return offset;
      if (hasBegun) failures += 1;
      if (!isTransient(error) || failures > failuresAllowed) throw error;
      await patience.after(error);
    }
  }
}
