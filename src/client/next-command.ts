import { oneLine, shellWord } from '../contract/index.js';

/** Suggests commands that select the server in the same way as the current one; otherwise they would go to another server. */
export interface NextCommands {
  /** A command for the user to run next, including the flags for the same server. */
  nextCommand(words: string): string;
}

/**
 * A command for the user to run next.
 * @param serverFlags name and value of each flag that selected the server
 */
export const nextCommand = (
  words: string,
  serverFlags: readonly (readonly [string, string])[] = [],
): string =>
  `remote-app ${words}${serverFlags.map(([name, value]) => ` --${name} ${shellWord(oneLine(value))}`).join('')}`;
