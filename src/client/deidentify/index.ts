/** What may leave of a scan when nobody must be recognised by it. */

export { type DeidentifyOptions, deidentifyDicom } from './dicom.js';
export { profileKey } from './key.js';
export type { Deidentified, Piece } from './pieces.js';
export { CannotDeidentify, type RefusalName, refusals } from './refusals.js';
export { Pseudonyms } from './uids.js';
