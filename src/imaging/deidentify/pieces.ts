import type { PackedPiece } from '../../archive/index.js';

/** Bytes of all pieces. */
export const sizeOf = (pieces: readonly PackedPiece[]): number =>
  pieces.reduce((sum, each) => sum + (each instanceof Uint8Array ? each.length : each.end - each.start), 0);

/** A file without what identifies a person. */
export interface Deidentified {
  readonly pieces: readonly PackedPiece[];
  /** Bytes of all pieces. */
  readonly size: number;
  /** What it still says, and what was left out, as a person calls it: `Modality (0008,0060)`. Never values. */
  readonly kept: readonly string[];
  readonly removed: readonly string[];
}
