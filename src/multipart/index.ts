/** Reads a form as it arrives. */
export { FormParser, type PartReceiver, type PartSink, readBoundary } from './form-parser.js';
export { readPartHeaders } from './part-headers.js';
