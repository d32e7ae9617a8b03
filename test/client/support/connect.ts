import { Connection, type ConnectionOptions } from '../../../src/client/connection/connection.js';
import type { Reporter } from '../../../src/client/reporter.js';

/** A connection with short patience, and with time-outs that a busy machine does not reach. */
export function connectTo(
  server: string,
  options: Partial<ConnectionOptions> = {},
): Connection & AsyncDisposable {
  const connection = new Connection({
    server,
    connectTimeout: 30,
    readTimeout: 30,
    patience: 30,
    ...options,
  });
  return Object.assign(connection, { [Symbol.asyncDispose]: () => connection.close() });
}

/** Remembers what it is told. */
export function memoryReporter(): Reporter & {
  lines: string[];
  notes: string[];
  moves: [string, number, number][];
} {
  const lines: string[] = [];
  const notes: string[] = [];
  const moves: [string, number, number][] = [];
  return {
    lines,
    notes,
    moves,
    line: async (text) => lines.push(text) > 0,
    endLog: async () => true,
    note: (text) => notes.push(text),
    waiting: (what, isNews) => {
      if (what !== null && isNews) notes.push(what);
    },
    running: () => {},
    silent: () => {},
    progress: (...move) => moves.push(move),
  };
}
