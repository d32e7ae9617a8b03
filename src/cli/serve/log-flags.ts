/** Levels of the server's log, the most important one first. A level shows itself and those before it. */
export const logLevels = ['error', 'warn', 'info', 'debug'] as const;
export type LogLevel = (typeof logLevels)[number];

/** How a line of the server's log is written. */
export const logFormats = ['text', 'json'] as const;
export type LogFormat = (typeof logFormats)[number];

export interface LogSettings {
  readonly format: LogFormat;
  readonly level: LogLevel;
}
