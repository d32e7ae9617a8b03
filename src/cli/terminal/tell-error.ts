import { Colours } from './colours.js';
import { writeErr, writeOut } from './standard-streams.js';
import { forJson } from './terminal-text.js';

/** What `--json` prints for a command that failed. */
export interface ErrorDocument {
  readonly error: { readonly message: string; readonly exit_code: number };
}

/** Writes what went wrong to stderr, and below it what to do about it. */
export function tellError(sentence: string, hints: readonly string[]): void {
  const { error: red, hint: dim } = new Colours(process.stderr);
  writeErr(`${red('Error:')} ${sentence}\n`);
  for (const hint of hints) writeErr(`${dim(hint)}\n`);
}

/** Prints the document of `--json` for a process that ends outside of a command. */
export async function documentError(message: string, exitCode: number): Promise<void> {
  const document: ErrorDocument = { error: { message, exit_code: exitCode } };
  await writeOut(`${forJson(JSON.stringify(document, null, 2))}\n`);
}
