export { appendWhole } from './append-whole.js';
export { bootTimeIn, monotonicTime, secondsUntil, TimeSlice, thisBoot } from './clocks.js';
export { filesBelow, madeDirectories, makeDirectory, namesIn } from './directories.js';
export { editJsonFile } from './edit-json-file.js';
export {
  errorCode,
  faultWithoutPath,
  isDiskFull,
  isFileTooLarge,
  isForbidden,
  isGone,
  isMissing,
  isShortage,
  isSystemError,
} from './errors.js';
export { isStillNamed, lockPath } from './file-lock.js';
export { findProgram } from './find-program.js';
export { hashFile } from './hash-file.js';
export { expandHome, isOfAnotherHome } from './home-path.js';
export {
  jsonText,
  readJsonFile,
  removePartials,
  replaceFile,
  saveJsonFile,
  writeJsonFile,
  writeTextFile,
} from './json-file.js';
export { foldedName, freeName, isSafeName, maxNameBytes, windowsName } from './names.js';
export { Notes } from './notes.js';
export { closeInherited, NotOurFile, openDirectory, openOwnFile, readOwnFile } from './own-file.js';
export { contentStamp, type Place, placesFrom } from './places.js';
export { dropReserve, readReserve, reserveJsonFile, writeReservedJson } from './reserved-json.js';
export { decodedText, firstBytes, readScriptStart, readSmallFile } from './small-file.js';
export { syncDirectory, syncDirectorySync, syncFile, syncTree } from './sync.js';
export { type Release, Turns } from './turns.js';
