/** What a person or a script sees on stdout and stderr: text, tables, times, errors, progress. */

export { canvasOfTerminal } from './canvas.js';
export {
  Colours,
  CommandIo,
  type ErrorDocument,
  type InputStream,
  ioOf,
  leaveClosedTerminals,
  loadConfig,
  type OutputStream,
} from './command-io.js';
export { fitted, type Narrowing } from './fit-columns.js';
export { type Cell, columnsOf, formatMemory, formatPairs, formatTable, wrapped } from './format.js';
export { LiveBlock } from './live-block.js';
export { forJson } from './terminal-text.js';
export { JsonLogReporter, type OpenReporter, openReporter } from './text-reporter.js';
export { formatDistance, formatDuration, formatTime, readTime } from './time-text.js';
