export { exists, lookAt } from './entries.js';
export {
  type FoundFiles,
  findFiles,
  type NamedDataSet,
  type NamedUnit,
  type ResultPlace,
} from './find-files.js';
export { splitPattern } from './glob.js';
export { type Pairing, plainName } from './names.js';
export { slicesOf } from './volumes.js';
