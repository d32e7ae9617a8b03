import { constants, crc32 } from 'node:zlib';
import { deflate } from './compressible.js';

/** Pieces of a file that are deflated at once. One of the four threads of Node's pool is left for other work. */
const atOnce = 3;

/** Bytes before a piece that its deflated form may refer to. */
const windowBytes = 32 * 1024;

/** Bytes of a piece's deflated form that are made in one turn: half a piece of a large file, and most need no second turn. */
const chunkSize = 512 << 10;

/** The end of a deflated stream: a last block, which is empty. */
const lastBlock = Buffer.from([3, 0]);

/**
 * A file that is deflated while it is read, in pieces that follow each other as one stream. Several pieces are deflated at
 * once, each with the end of the one before as its dictionary: a deflated stream alone would keep only one core busy.
 */
export class DeflatedPieces {
  /** Bytes that were read so far, and their checksum. */
  size = 0;
  crc = 0;

  constructor(private readonly source: AsyncIterable<Buffer>) {}

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    const underWay: Promise<Buffer>[] = [];
    let dictionary: Buffer = Buffer.alloc(0);
    for await (const piece of this.source) {
      this.size += piece.length;
      this.crc = crc32(piece, this.crc);
      underWay.push(deflatePiece(piece, dictionary));
      dictionary = piece.subarray(-windowBytes);
      if (underWay.length === atOnce) yield* underWay.splice(0, 1);
    }
    yield* underWay;
    yield lastBlock;
  }
}

/** Deflates a piece to a whole number of bytes, so that another may follow. */
function deflatePiece(piece: Buffer, dictionary: Buffer): Promise<Buffer> {
  const deflated = deflate(piece, { dictionary, chunkSize, finishFlush: constants.Z_SYNC_FLUSH });
  // Whoever reads the pieces may have stopped.
  deflated.catch(() => {});
  return deflated;
}
