import { Colours } from './colours.js';
import { writeErr } from './standard-streams.js';

/** Writes what went wrong to stderr, and below it what to do about it. */
export function tellError(sentence: string, hints: readonly string[]): void {
  const { error: red, hint: dim } = new Colours(process.stderr);
  writeErr(`${red('Error:')} ${sentence}\n`);
  for (const hint of hints) writeErr(`${dim(hint)}\n`);
}
