export type { SavedArchive } from './fetch-archive.js';
export { checkOutput, type Destination, foreseeOutput, type OutputDirectory } from './output-directory.js';
export { type AwaitOptions, ResultFetch, type StreamedArchive, saveAppConfig } from './result.js';
