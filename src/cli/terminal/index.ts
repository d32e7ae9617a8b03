/** Everything that is shown on stdout and stderr: text, tables, times, errors, progress. */

import type { Reporter } from '../../client/reporter.js';
import type { CommandIo } from './command-io.js';
import { type ReporterOptions, TextReporter } from './text-reporter.js';

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
export { cutMiddle } from './cut-text.js';
export * from './format.js';
export { LiveBlock } from './live-block.js';
export { forJson } from './terminal-text.js';
export { JsonLogReporter } from './text-reporter.js';
export { distanceTo, formatDistance, formatDuration, formatTime, readTime } from './time-text.js';

/** A reporter that the command closes when it ends. */
export interface OpenReporter extends Reporter, Disposable {
  close(): void;
}

/** Opens the reporter: bars and spinners on a terminal, plain lines elsewhere. */
export async function openReporter(io: CommandIo, options: ReporterOptions): Promise<OpenReporter> {
  if (!io.isInteractive()) return new TextReporter(io, options);
  const { TerminalReporter } = await import('./terminal-reporter.js');
  return new TerminalReporter(io, options);
}
