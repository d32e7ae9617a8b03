import type { Reporter } from '../../client/reporter.js';
import type { CommandIo } from './command-io.js';
import type { ReporterOptions } from './text-reporter.js';

/** A reporter that a command closes at its end. */
export interface OpenReporter extends Reporter {
  close(): void;
}

/** Bars and spinners on a terminal, plain lines elsewhere. Each is imported only where it is used. */
export async function openReporter(io: CommandIo, options: ReporterOptions): Promise<OpenReporter> {
  if (io.isInteractive()) {
    const { TerminalReporter } = await import('./terminal-reporter.js');
    return new TerminalReporter(io, options);
  }
  const { TextReporter } = await import('./text-reporter.js');
  return new TextReporter(io, options);
}

/** For a log that is printed as JSON documents. */
export async function openJsonLogReporter(io: CommandIo): Promise<Reporter> {
  const { JsonLogReporter } = await import('./text-reporter.js');
  return new JsonLogReporter(io);
}
