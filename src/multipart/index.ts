/** Reads a form as it arrives: for the server that takes it, and for the gateway that looks at what it passes on. */
export { FormParser, type PartReceiver, type PartSink, readBoundary } from './form-parser.js';
export { readPartHeaders } from './part-headers.js';
