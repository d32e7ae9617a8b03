export { saveAppConfig } from './app-config.js';
export type { AwaitOptions } from './await-result.js';
export type { SavedArchive } from './fetch-archive.js';
export { checkOutput, type Destination, foreseeOutput, type OutputDirectory } from './output-directory.js';
export { ResultFetch, type StreamedArchive } from './result.js';
