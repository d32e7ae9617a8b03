export {
  bootTimeIn,
  type Clock,
  monotonicTime,
  pause,
  secondsUntil,
  systemClock,
  TimeSlice,
  thisBoot,
} from './clocks.js';
export {
  contentStamp,
  filesBelow,
  isDirectory,
  isRealDirectory,
  madeDirectories,
  makeDirectory,
  namesIn,
  type TreeEntry,
  treeEntries,
} from './directories.js';
export {
  errorCode,
  faultWithoutPath,
  isDiskFull,
  isFileTooLarge,
  isForbidden,
  isGone,
  isMissing,
  isOutOfInodes,
  isProgramAway,
  isShortage,
  isSystemError,
  lacksInodes,
  orElse,
} from './errors.js';
export { isStillNamed, lockPath } from './file-lock.js';
export { findProgram, isOnPath, startError } from './find-program.js';
export { hashFile } from './hash-file.js';
export { appendLine, appendLines, lastLines, openLines } from './lines.js';
export { privateMode, sharedMode } from './modes.js';
export {
  byName,
  differingParts,
  expandHome,
  foldedName,
  freeName,
  isOfAnotherHome,
  isSafeName,
  maxNameBytes,
  Notes,
  safeName,
  windowsName,
  withoutEnding,
  withSlashes,
} from './names.js';
export { closeInherited, NotOurFile, openOwnFile, readOwnFile } from './own-file.js';
export { isGroupAlive, isSignalable } from './process-status.js';
export { decodedText, firstBytes, readScriptStart, readSmallFile } from './read-file.js';
export { syncDirectory, syncDirectorySync, syncFile, syncTree } from './sync.js';
export { type Release, Turns } from './turns.js';
export {
  type DirectoryWalkOptions,
  TooManyEntries,
  type WalkedDirectory,
  type WalkedEntry,
  walkDirectories,
} from './walk.js';
export {
  dropReserve,
  editJsonFile,
  jsonText,
  readJsonFile,
  readReserve,
  removePartials,
  replaceFile,
  reserveJsonFile,
  saveJsonFile,
  writeJsonFile,
  writeReservedJson,
  writeTextFile,
} from './whole-file.js';
