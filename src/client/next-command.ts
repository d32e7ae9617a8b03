import { oneLine, shellWord } from '../contract/index.js';

/** Whatever knows how a command named its server: a suggested command must name it the same way, or it would go to another. */
export interface NextCommands {
  /** A command for a person to run next, including the flags for the same server. */
  nextCommand(words: string): string;
}

/**
 * A command for a person to run next.
 * @param serverFlags name and value of each flag that named the server
 */
export const nextCommand = (
  words: string,
  serverFlags: readonly (readonly [string, string])[] = [],
): string =>
  `remote-app ${words}${serverFlags.map(([name, value]) => ` --${name} ${shellWord(oneLine(value))}`).join('')}`;
