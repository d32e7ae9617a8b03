/** Volumes of results in the formats of viewers, beside the scans that they are of. */
export { checkRequest, convertResult } from './convert-result.js';
export { convertVolume, endingOf, type VolumeToConvert, type WrittenVolume } from './convert-volume.js';
export { joinNamed } from './mask-groups.js';
export { checkScans, namedBy, type Scan, Scans, scanOf } from './scans.js';
export { segmentsOf } from './segments.js';
