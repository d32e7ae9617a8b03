import { oneLine, shellWord } from '../contract/index.js';

let wayTyped = '';

/**
 * Stores the flags that named the server to this process. A command suggested in a message must repeat them, or it would
 * go to another server.
 * @param flags name and value of each
 */
export function reachedBy(flags: readonly (readonly [string, string])[]): void {
  wayTyped = flags.map(([name, value]) => ` --${name} ${shellWord(oneLine(value))}`).join('');
}

/** A command for a person to run next, including the flags for the same server. */
export const nextCommand = (words: string): string => `remote-app ${words}${wayTyped}`;
