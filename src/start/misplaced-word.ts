import type { Config } from '@oclif/core';
import type { CommandIo } from '../cli/terminal/index.js';
import { exitCodes, nearest, quoteName } from '../contract/index.js';

/** A word where a command is expected, or after a command that takes no arguments. */
type MisplacedWord =
  | {
      readonly word: string;
      /** The commands that may have been intended. */
      readonly near: readonly string[];
    }
  | {
      readonly word: string;
      /** The command that takes no arguments. */
      readonly after: string;
    };

const helpWords = ['help', '--help', '-h'];
const versionFlags = ['--version', '-v'];

/** The names of the commands as a person types them, and whether they take arguments. */
const typedNames = ({ commands }: Config): Map<string, boolean> =>
  new Map(
    commands.flatMap(({ id, aliases, args }) =>
      [id.replace(':', ' '), ...aliases].map((each) => [each, Object.keys(args).length > 0] as const),
    ),
  );

/** What is wrong with the words in place of a command; undefined if they name a command, or none is needed. */
export function misplacedWord(
  [first = '--help', ...more]: readonly string[],
  config: Config,
): MisplacedWord | undefined {
  if (versionFlags.includes(first)) return undefined;
  const takesArguments = typedNames(config);
  const names = [...takesArguments.keys()];
  const words = helpWords.includes(first)
    ? more.filter((word) => !word.startsWith('-') && !helpWords.includes(word))
    : [first, ...more];
  const [named, second, third] = words;
  if (named === undefined) return undefined;
  const [command, next] = names.includes(`${named} ${second}`)
    ? [`${named} ${second}`, third]
    : [named, second];
  if (takesArguments.has(command)) {
    // oclif would treat a word after such a command as part of the command's name.
    if (next === undefined || next.startsWith('-') || takesArguments.get(command)) return undefined;
    return { word: next, after: command };
  }
  const ofTopic = names.filter((name) => name.startsWith(`${named} `));
  if (ofTopic.length === 0)
    return { word: named, near: [...new Set(names.map((name) => name.replace(/ .*/, '')))] };
  // A topic on its own shows its commands.
  if (second === undefined || second.startsWith('-')) return undefined;
  return { word: `${named} ${second}`, near: ofTopic };
}

function sentenceFor(misplaced: MisplacedWord): string {
  const { word } = misplaced;
  if ('after' in misplaced) return `'${misplaced.after}' takes no argument, got ${quoteName(word)}`;
  const isFlag = word.startsWith('-');
  const near = nearest(word, isFlag ? ['--help', '--version'] : misplaced.near);
  const what = isFlag
    ? `There is no flag ${quoteName(word)} before a command`
    : `There is no command ${quoteName(word)}`;
  if (near !== null) return `${what}; did you mean '${near}'?`;
  return isFlag ? `${what}; flags come after the command that they are for` : what;
}

/**
 * Reports what is wrong with a word, and which command may have been meant. Runs nothing; the exit code is the one for an invalid
 * command line.
 * @param json whether the error is printed as a document on stdout
 */
export async function refuseCommand(
  bin: string,
  misplaced: MisplacedWord,
  io: CommandIo,
  json: boolean,
): Promise<void> {
  io.exitCode = exitCodes.usage;
  const message = sentenceFor(misplaced);
  if (json) await io.documentError(message, exitCodes.usage);
  else io.tellError(message, [`See '${bin}${'after' in misplaced ? ` ${misplaced.after}` : ''} --help'.`]);
}
