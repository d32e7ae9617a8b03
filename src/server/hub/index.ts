/** Downloads apps from Hugging Face repositories, and stores them in the cache of Python's `huggingface_hub`. */
export { HubError } from './hub-error.js';
export { hubSettings } from './hub-settings.js';
export { Repositories } from './repositories.js';
export type { CachedFile } from './repository-cache.js';
export {
  type RepositoryName,
  readRepositoryName,
  TrackedRepository,
} from './tracked-repository.js';
