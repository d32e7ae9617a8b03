export { exists, lookAt } from './entries.js';
export { findFiles, findVolumes } from './find-files.js';
export {
  beginsAsFreeSurfer,
  hasDicomName,
  hasZarrName,
  isHidden,
  isSidecar,
  isVolumeName,
  withoutVolumeEnding,
} from './formats.js';
export { splitPattern } from './glob.js';
export { commonLength, groupBy, namesOf, plainName } from './names.js';
export { withoutSuffix } from './pairing.js';
export { describeSeries, selectSeries } from './series.js';
