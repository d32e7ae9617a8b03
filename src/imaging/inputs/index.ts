export {
  divideIntoCases,
  type FoundCase,
  filesOfUnit,
  hasPlaceholder,
  type Volume,
  volumesOf,
} from './cases.js';
export type { ChooseSeries } from './collect.js';
export { byName, exists, lookAt, mostShown, someOf } from './entries.js';
export {
  type FindOptions,
  type FoundFiles,
  findFiles,
  findVolumes,
  type NamedDataSet,
  type NamedUnit,
  type ResultPlace,
} from './find-files.js';
export {
  bidsDescription,
  hasDicomName,
  hasZarrName,
  isHidden,
  isSidecar,
  isVolumeName,
  withoutVolumeEnding,
} from './formats.js';
export { splitPattern } from './glob.js';
export { withoutSuffix } from './incomplete.js';
export { commonLength, distinctParts, groupBy, namesOf, type Pairing, plainName } from './names.js';
export { countSlices } from './recognise.js';
export { labelOf } from './selection.js';
export { describeSeries, type Series, selectSeries } from './series.js';
export type { Unit } from './unit.js';
