/** The data directory: its lock, the directories in it, and what is set aside. */
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
