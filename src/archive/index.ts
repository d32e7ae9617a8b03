/** Zip archives in and out, bounded and contained; both sides use it. */

export { ArchiveError } from './errors.js';
export { extractArchive } from './extract.js';
export { checkArchive } from './extract-plan.js';
export { type ListedFile, packListed, packListedTo, packTo } from './pack.js';
export { Packer } from './packer.js';
export { archiveEnd } from './read-archive.js';
export { countFiles } from './walk-files.js';
