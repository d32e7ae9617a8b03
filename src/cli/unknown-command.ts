import { exitCodes, nearest, quoteName } from '../contract/index.js';
import { documentError, tellError } from './terminal/tell-error.js';

/** A word in the place of a command that is none, or behind a command that takes no arguments. */
export type MisplacedWord =
  | {
      readonly word: string;
      /** The commands that may have been meant. */
      readonly near: readonly string[];
    }
  | {
      readonly word: string;
      /** The command. */
      readonly behind: string;
    };

const topFlags = ['--help', '--version'];

function sentenceFor(misplaced: MisplacedWord): string {
  const { word } = misplaced;
  if ('behind' in misplaced) return `'${misplaced.behind}' takes no argument, got ${quoteName(word)}`;
  const isFlag = word.startsWith('-');
  const near = nearest(word, isFlag ? topFlags : misplaced.near);
  const what = isFlag
    ? `There is no flag ${quoteName(word)} before a command`
    : `There is no command ${quoteName(word)}`;
  if (near !== null) return `${what}; did you mean '${near}'?`;
  return isFlag ? `${what}; flags come after the command that they are for` : what;
}

/**
 * Tells what is wrong with a word, and which command may have been meant. It runs none and asks nothing: the exit code is that
 * of a wrong command line.
 * @param json whether stdout gets the error as a document
 */
export async function refuseCommand(bin: string, misplaced: MisplacedWord, json: boolean): Promise<void> {
  process.exitCode = exitCodes.usage;
  const message = sentenceFor(misplaced);
  if (json) await documentError(message, exitCodes.usage);
  else tellError(message, [`See '${bin}${'behind' in misplaced ? ` ${misplaced.behind}` : ''} --help'.`]);
}
