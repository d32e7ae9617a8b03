import type { Writable } from 'node:stream';

/** Bytes of a piece that is passed on as it is. */
const large = 4096;
/** Bytes gathered before they are passed on. */
const slabSize = 64 << 10;

/**
 * Joins small pieces before they are written to a stream. A client may send a byte at a time, and each waiting piece takes
 * hundreds of bytes of memory. Pieces that arrive in one turn of the event loop become one.
 */
export function gatherPieces(stream: Writable): void {
  const write = stream.write.bind(stream) as (piece: Buffer) => boolean;
  const end = stream.end.bind(stream) as () => Writable;
  let slab = Buffer.alloc(0);
  let from = 0;
  let to = 0;
  let timer: NodeJS.Immediate | undefined;

  const flush = (): boolean => {
    clearImmediate(timer);
    timer = undefined;
    const gathered = slab.subarray(from, to);
    from = to;
    return gathered.length === 0 || stream.destroyed || write(gathered);
  };
  const gather = (piece: Buffer): boolean => {
    if (to + piece.length > slab.length) {
      flush();
      slab = Buffer.allocUnsafeSlow(slabSize);
      from = 0;
      to = 0;
    }
    piece.copy(slab, to);
    to += piece.length;
    timer ??= setImmediate(flush);
    return true;
  };
  stream.write = ((piece: Buffer) => {
    if (piece.length < large) return gather(piece);
    flush();
    return write(piece);
  }) as Writable['write'];
  stream.end = (() => {
    flush();
    return end();
  }) as Writable['end'];
}
