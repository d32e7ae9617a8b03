/** The data directory: its lock, the directories in it, and what is set aside. */
export { DirectoryInUse, lockDataDirectory } from './lock.js';
export { ownDirectory, readOrSetAside, setAside } from './own-directory.js';
export { checkFileSystem, lookAtDataDirectory, prepareDataDirectory, unwritable } from './prepare.js';
