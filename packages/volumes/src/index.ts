/** Reads and writes volumes in the formats of medical imaging. Apps import this as `remote-app/volumes`. */

export { openDicom, openSeries } from './dicom.js';
export {
  type ByteSource,
  type DicomElements,
  openBytes,
  type PixelData,
  readElements,
} from './dicom-elements.js';
export {
  type DicomElement,
  type DicomSyntax,
  elementStart,
  encodeElements,
  fileStart,
  itemStart,
} from './dicom-write.js';
export { parseDicomStart, privateItems } from './headers/dicom-parse.js';
export { isDicomStart, isGzip } from './headers/dicom-start.js';
export { syntaxes } from './headers/dicom-walk.js';
export { beginsAsNifti } from './headers/nifti-layout.js';
export type { LabelLayer } from './label-layers.js';
export type { WritableVolume } from './nifti-header.js';
export { liesOnGrid, nearestOnGrid, placeOnGrid } from './onto-grid.js';
export { faultOfVolume, openVolume, readVolume } from './open.js';
export { type RtStructOptions, writeRtStruct } from './rt-struct.js';
export type { Maker, Segment, SourceImage, SourceSeries, WrittenObject } from './segments.js';
export { type JoinedMasks, joinMasks, labelMapOf, type SingleMask } from './single-masks.js';
export { readSourceSeries } from './source-series.js';
export {
  type Affine,
  type AffineRow,
  arrayLike,
  type Geometry,
  inverseOf,
  isSameGeometry,
  type Label,
  placeOf,
  type Size,
  type Slice,
  type SliceChoice,
  shearOf,
  spacingOf,
  type Volume,
  VolumeError,
  type VolumeFile,
  type VolumeHeader,
  type Voxels,
  voxelVolumeOf,
} from './volume.js';
export { writeNifti, writeVolume } from './write.js';
export { NoLabels, type SegOptions, writeDicomSeg } from './write-dicom-seg.js';
export { writeDicomSeries } from './write-dicom-series.js';
export { type SegNrrdOptions, writeSegNrrd } from './write-seg-nrrd.js';
