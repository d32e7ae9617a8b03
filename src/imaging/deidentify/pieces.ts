import type { PackedPiece } from '../../archive/index.js';

/** Total size of the pieces, in bytes. */
export const sizeOf = (pieces: readonly PackedPiece[]): number =>
  pieces.reduce((sum, each) => sum + (each instanceof Uint8Array ? each.length : each.end - each.start), 0);

/** A de-identified file. */
export interface Deidentified {
  readonly pieces: readonly PackedPiece[];
  /** Total size of the pieces, in bytes. */
  readonly size: number;
  /** Readable names of what was kept and removed: `Modality (0008,0060)`. Never values. */
  readonly kept: readonly string[];
  readonly removed: readonly string[];
}
