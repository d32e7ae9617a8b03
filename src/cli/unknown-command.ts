import { nearest } from '../client/nearest.js';
import { exitCodes } from '../contract/errors.js';
import { quoteName } from '../contract/quote.js';
import type { ErrorDocument } from './base-command.js';
import { writeOut } from './terminal/standard-streams.js';
import { tellError } from './terminal/tell-error.js';
import { forJson } from './terminal/terminal-text.js';

const topFlags = ['--help', '--version'];

function sentenceFor(word: string, commands: readonly string[]): string {
  const isFlag = word.startsWith('-');
  const near = nearest(word, isFlag ? topFlags : commands);
  const what = isFlag
    ? `There is no flag ${quoteName(word)} before a command`
    : `There is no command ${quoteName(word)}`;
  if (near !== null) return `${what}; did you mean '${near}'?`;
  return isFlag ? `${what}; flags come after the command that they are for` : what;
}

/**
 * Tells that a word is no command, and which one may have been meant. It runs none and asks nothing: the exit code is that of
 * a wrong command line.
 * @param json whether stdout gets the error as a document
 */
export async function refuseCommand(
  bin: string,
  word: string,
  commands: readonly string[],
  json: boolean,
): Promise<void> {
  process.exitCode = exitCodes.usage;
  const message = sentenceFor(word, commands);
  if (!json) {
    tellError(message, [`See '${bin} --help'.`]);
    return;
  }
  const document: ErrorDocument = { error: { message, exit_code: exitCodes.usage } };
  await writeOut(`${forJson(JSON.stringify(document, null, 2))}\n`);
}
