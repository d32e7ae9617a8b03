/** What the beginnings of scan files say, without their voxels: for what reads volumes, for what sends them, and for a server that takes no names. */

export {
  beginsAsNifti,
  headerNamesOf,
  isPairVoxels,
  pairStem,
  voxelFilesOf,
  voxelNamesOf,
} from './data-files.js';
export { type DataLayout, dataLayoutOf } from './data-layout.js';
export {
  type DicomHeader,
  encodingOf,
  headerOf,
  isImage,
  isSegmentation,
  readStart,
  startReader,
  textOf,
} from './dicom-header.js';
export { type Identity, identityIn } from './dicom-identity.js';
export { dot, normalOf, stackOf, usualStep } from './dicom-stack.js';
export {
  elementsToRead,
  hasMagic,
  isDicomStart,
  isGzip,
  itemOf,
  lookAhead,
  numberOf,
  numbersOf,
  type ParsedDicom,
  parseDicomStart,
  pixelData,
  unzippedStart,
  wordsOf,
} from './dicom-start.js';
export { syntaxes } from './dicom-syntaxes.js';
export { identifying } from './identifying.js';
export {
  beginsAsMetaImage,
  beginsAsNrrd,
  maxHeader,
  parseMetaHeader,
  parseNrrdHeader,
} from './text-headers.js';
