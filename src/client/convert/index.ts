/** Volumes of results in the formats of viewers, beside the scans that they are of. */
export { convertVolume, endingOf, type VolumeToConvert, type WrittenVolume } from './convert-volume.js';
export { checkScans, type Scan, Scans, scanOf } from './scans.js';
export { segmentsOf } from './segments.js';
