export {
  checkOutput,
  type Destination,
  foreseePlace,
  type OutputDirectory,
} from './place.js';
export { fetchResult, type StreamedArchive, saveAppConfig } from './result.js';
export type { SavedArchive } from './save-archive.js';
