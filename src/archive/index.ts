/** Writes and extracts zip archives within limits; used by client and server. */

export { ArchiveError } from './errors.js';
export { type Extracted, extractArchive } from './extract.js';
export { checkArchive } from './extract-plan.js';
export { type ListedFile, packListed, packListedTo, packTo } from './pack.js';
export { Packer } from './packer.js';
export { archiveEnd } from './read-archive.js';
export { countFiles, type PackedPiece } from './walk-files.js';
