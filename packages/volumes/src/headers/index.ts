/** Reads the headers of scans, without their voxels: format, names of voxel files, and description of the image. */

export {
  headerNamesOf,
  isPairVoxels,
  pairStem,
  voxelFilesOf,
} from './data-files.js';
export { type DataLayout, dataLayoutOf } from './data-layout.js';
export { type DicomHeader, isImage, isSegmentation, readStart } from './dicom-header.js';
export { dot, normalOf, stackOf, usualStep } from './dicom-stack.js';
export { isDicomStart, isGzip, unzippedStart } from './dicom-start.js';
export { contradictorySides, guessesOnNifti } from './nifti-forms.js';
export * from './nifti-layout.js';
export {
  beginsAsMetaImage,
  beginsAsNrrd,
  maxHeader,
  parseMetaHeader,
  parseNrrdHeader,
} from './text-headers.js';
