import { closeSync, fstatSync, openSync, readSync, type Stats } from 'node:fs';
import type { PackedPiece } from '../../archive/index.js';
import { exitCodes, quotePath } from '../../contract/index.js';
import { faultWithoutPath } from '../../files/index.js';
import { ClientError } from '../errors.js';

/** A range of bytes in a file; `end` is exclusive. */
interface FileRange {
  readonly path: string;
  readonly start: number;
  readonly end: number;
  /** Size that the file must have; if undefined, the file must contain at least the range. */
  readonly whole?: number;
}

/**
 * The state of each file when it was first opened, by path. A repeated body must be identical, since the server may have accepted
 * the first.
 */
export type SeenFiles = Map<string, string>;

/** A fingerprint of a file: its size, time, inode and device. It changes when the file does. */
export const stateOf = ({ size, mtimeMs, ino, dev }: Stats): string => [size, mtimeMs, ino, dev].join();

/** The error for a file that has changed since sending it began. */
export const changed = (file: string): ClientError =>
  new ClientError(`${quotePath(file)} changed while it was sent; send it again`, exitCodes.failed);

/** The error for a file that cannot be read while it is sent. */
export const unreadable = (file: string, cause: unknown): ClientError =>
  new ClientError(
    `${quotePath(file)} cannot be read: ${faultWithoutPath(cause)}`,
    exitCodes.failed,
    {},
    { cause },
  );

/** A part of a body: literal bytes, or a range of a file. */
export type Segment = Buffer | FileRange;

/** One file of a submission. */
export interface FilePart {
  readonly path: string;
  /** Bytes. */
  readonly size: number;
  readonly field: string;
  /** The name as the server sees it: the last part of a path. */
  readonly filename: string;
  /** The bytes sent in place of the file's content, `size` in total, and the state of the file for which they were chosen. */
  readonly pieces?: readonly PackedPiece[];
  readonly state?: string;
}

/** The content of a part. */
export const contentOf = ({ path, size, pieces }: FilePart): Segment[] =>
  pieces
    ? pieces.map((each) =>
        each instanceof Uint8Array
          ? Buffer.from(each.buffer, each.byteOffset, each.length)
          : { path, ...each },
      )
    : [{ path, start: 0, end: size, whole: size }];

export const sizeOf = (segment: Segment): number =>
  Buffer.isBuffer(segment) ? segment.length : segment.end - segment.start;

/** The segments without this many bytes at the beginning. */
export function behind(segments: readonly Segment[], bytes: number): Segment[] {
  let left = bytes;
  return segments.flatMap((segment) => {
    const cut = Math.min(left, sizeOf(segment));
    left -= cut;
    if (cut === sizeOf(segment)) return [];
    return [Buffer.isBuffer(segment) ? segment.subarray(cut) : { ...segment, start: segment.start + cut }];
  });
}

/** Number of bytes of a file that are read at once. */
const pieceSize = 1024 * 1024;

/**
 * The bytes of a range, which must exist. Reads are synchronous: the system reads ahead, and two trips to the thread pool would
 * take longer than copying the data.
 */
function* bytesOf({ path, start, end, whole }: FileRange, seen: SeenFiles): Generator<Buffer> {
  // A read error must not be mistaken for a broken connection, which would be retried.
  const reading = <T>(read: () => T): T => {
    try {
      return read();
    } catch (cause) {
      throw unreadable(path, cause);
    }
  };
  const descriptor = reading(() => openSync(path, 'r'));
  try {
    const stats = reading(() => fstatSync(descriptor));
    const state = stateOf(stats);
    if (stats.size < end || stats.size !== (whole ?? stats.size)) throw changed(path);
    if (state !== (seen.get(path) ?? state)) throw changed(path);
    seen.set(path, state);
    for (let at = start; at < end; ) {
      // Each piece has its own memory: the socket may still hold the one before.
      const piece = Buffer.allocUnsafe(Math.min(pieceSize, end - at));
      const count = reading(() => readSync(descriptor, piece, 0, piece.length, at));
      at += count;
      // The data already sent may be a mix of the old content and the new.
      const isChanged = at === end && stateOf(reading(() => fstatSync(descriptor))) !== state;
      if (count === 0 || isChanged) throw changed(path);
      yield piece.subarray(0, count);
    }
  } finally {
    closeSync(descriptor);
  }
}

/**
 * The bytes of segments, piece by piece.
 * @param seen earlier states of the files
 * @throws ClientError for a file that has changed since then, or cannot be read
 */
export function* piecesOf(segments: Iterable<Segment>, seen: SeenFiles): Generator<Buffer> {
  for (const segment of segments) {
    if (sizeOf(segment) === 0) continue;
    if (Buffer.isBuffer(segment)) yield segment;
    else yield* bytesOf(segment, seen);
  }
}
