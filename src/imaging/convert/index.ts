/** Converts the volumes of results to the formats that viewers read, beside their scans. */
export { type ConvertedFile, type ConvertOptions, convertFile } from './convert-file.js';
export { checkRequest, convertResult } from './convert-result.js';
