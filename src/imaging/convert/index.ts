/** Volumes of results in the formats of viewers, beside the scans that they are of. */
export { type ConvertedFile, type ConvertOptions, convertFile } from './convert-file.js';
export { checkRequest, convertResult } from './convert-result.js';
