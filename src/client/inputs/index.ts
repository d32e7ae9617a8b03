export { divideIntoCases, type FoundCase, filesOfUnit } from './cases.js';
export type { ChooseSeries, Unit } from './collect.js';
export { byName, exists, lookAt } from './entries.js';
export {
  type FindOptions,
  type FoundFiles,
  findFiles,
  findVolumes,
  mostShown,
  type NamedDataSet,
  type NamedUnit,
  type ResultPlace,
  someOf,
} from './find-files.js';
export { isHidden, isVolumeName, withoutVolumeEnding } from './formats.js';
export { splitPattern } from './glob.js';
export { groupBy, namesOf, type Pairing, plainName } from './names.js';
export { countSlices } from './recognise.js';
export { describeSeries, type Series, selectSeries } from './series.js';
