import type { LogLevel } from './flags.js';

/** What a line of JSON says besides its message. */
export type LogFields = Readonly<Record<string, unknown>>;

/** A line of the server's log in JSON, without its line end. */
export const logLine = (level: LogLevel, message: string, fields: LogFields = {}): string =>
  JSON.stringify({ time: new Date().toISOString(), level, message, ...fields });
