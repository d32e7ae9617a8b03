export {
  checkOutput,
  type Destination,
  foreseeOutput,
  type OutputDirectory,
} from './place.js';
export { fetchResult, type StreamedArchive, saveAppConfig } from './result.js';
export type { SavedArchive } from './save-archive.js';
