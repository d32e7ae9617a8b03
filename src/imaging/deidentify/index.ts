/** What may leave of files when nobody must be recognised by it, and under which names. */

export type { Deidentifier, Mode, Tally, Workplace } from './deidentifier.js';
export { profileKey } from './key.js';
export { NeutralNames, type OriginalNames, withOriginals } from './names.js';
export {
  type DeidentifiedNote,
  type DeidentifyChoice,
  type DeidentifyTerms,
  deidentifierFor,
  noteOf,
  type Outgoing,
  originalsOf,
  outgoingOf,
  refusedDataSet,
} from './outgoing.js';
export { type Piece, sizeOf } from './pieces.js';
export type { Prepared } from './repack.js';
export { translateResult } from './translate.js';
