import { type Connection, pause } from '../../client/connection/index.js';
import { Interrupted, isTransient } from '../../client/errors.js';
import { type CommandIo, forJson, LiveBlock } from '../terminal/index.js';

/** A changing value on the server. */
export interface Watched<T> {
  readonly read: () => Promise<T>;
  /** The value as lines for a person. */
  readonly lines: (value: T) => readonly string[];
  /** A string that differs whenever there is something new to show. */
  readonly change: (value: T) => string;
}

interface WatchOptions {
  /** Seconds between two requests. */
  readonly every: number;
  readonly json: boolean;
}

/** Where the values of a watch are shown. */
interface Screen<T> {
  /** False once the reader has closed the output. */
  show(value: T): Promise<boolean>;
  /** Reports that the server is currently unreachable. */
  away(error: Error): void;
}

/** For a terminal: one block, redrawn in place. */
function terminalScreen<T>(io: CommandIo, watched: Watched<T>, every: number): Screen<T> {
  const { hint, warning } = io.colours(io.stdout);
  const block = new LiveBlock(io.stdout);
  const usual = hint(`Every ${every} s; Ctrl-C ends`);
  let lines: readonly string[] = [];
  return {
    async show(value) {
      lines = watched.lines(value);
      block.draw([...lines, usual]);
      return true;
    },
    // The terminal cuts long lines, so the most important words come first.
    away: (error) => block.draw([...lines, warning(`Trying again: ${error.message}`)]),
  };
}

/** For a pipe or a file: for each change, a block, or a JSON document on one line. */
function plainScreen<T>(io: CommandIo, watched: Watched<T>, json: boolean): Screen<T> {
  let last: string | null = null;
  let isAway = false;
  return {
    async show(value) {
      isAway = false;
      const change = watched.change(value);
      if (change === last) return true;
      const block = json
        ? forJson(JSON.stringify(value))
        : [...(last === null ? [] : ['']), ...watched.lines(value)].join('\n');
      last = change;
      return io.writeOut(`${block}\n`);
    },
    away(error) {
      if (!isAway) io.writeErr(`${error.message}; trying again\n`);
      isAway = true;
    },
  };
}

/**
 * Shows a value on the server until Ctrl-C, or until the reader closes the output; both count as a normal end. If the server
 * disappears after its first answer, requests are repeated until it returns.
 */
export async function watch<T>(
  connection: Connection,
  io: CommandIo,
  watched: Watched<T>,
  { every, json }: WatchOptions,
): Promise<void> {
  const screen =
    !json && io.isInteractive(io.stdout)
      ? terminalScreen(io, watched, every)
      : plainScreen<T>(io, watched, json);
  let isMet = false;
  try {
    for (;;) {
      try {
        const value = await watched.read();
        isMet = true;
        if (!(await screen.show(value))) return;
      } catch (error) {
        if (connection.signal?.aborted || !isMet || !isTransient(error)) throw error;
        screen.away(error as Error);
      }
      await pause(every * 1000, connection.signal);
    }
  } catch (error) {
    const reason: unknown = connection.signal?.aborted ? connection.signal.reason : error;
    if (!(reason instanceof Interrupted && ['SIGINT', 'SIGQUIT'].includes(reason.signalName))) throw reason;
  }
}
