import { oneLine, shellWord } from '../contract/index.js';

let wayTyped = '';

/**
 * Sets by which flags this process was told its server. A person who copies a command that a message names has to give them
 * again, or would ask another server.
 * @param flags name and value of each
 */
export function reachedBy(flags: readonly (readonly [string, string])[]): void {
  wayTyped = flags.map(([name, value]) => ` --${name} ${shellWord(oneLine(value))}`).join('');
}

/** A command that a message tells a person to run next, with the flags by which it reaches the same server. */
export const nextCommand = (words: string): string => `remote-app ${words}${wayTyped}`;
