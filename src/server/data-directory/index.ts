/** The data directory: its lock, its subdirectories, and entries that are set aside. */
export { DirectoryInUse, lockDataDirectory } from './lock.js';
export {
  checkFileSystem,
  lookAtDataDirectory,
  ownDirectory,
  prepareDataDirectory,
  readOrSetAside,
  setAside,
  unwritable,
} from './prepare.js';
