import { userInfo } from 'node:os';
import { Config } from '@oclif/core';
import { execute } from '@oclif/core/execute';
import { leaveClosedTerminals, tolerateClosedPipes } from '../cli/terminal/standard-streams.js';
import type { MisplacedWord } from '../cli/unknown-command.js';

/**
 * If SHELL is not set, oclif asks the system for the user's shell, and fails if the user has no entry in passwd, as in many
 * containers. Nothing here depends on the value.
 */
function nameShell(): void {
  if (process.env.SHELL !== undefined) return;
  try {
    userInfo();
  } catch {
    process.env.SHELL = '/bin/sh';
  }
}

const helpWords = ['help', '--help', '-h'];

/** The names that a person types, and whether their commands take arguments. */
const typedNames = ({ commands }: Config): Map<string, boolean> =>
  new Map(
    commands.flatMap(({ id, aliases, args }) =>
      [id.replace(':', ' '), ...aliases].map((each) => [each, Object.keys(args).length > 0] as const),
    ),
  );

/** What is wrong with the words in the place of a command; undefined where there is a command, or none is needed. */
function misplacedWord(
  [first = '--help', ...more]: readonly string[],
  takesArguments: Map<string, boolean>,
): MisplacedWord | undefined {
  const names = [...takesArguments.keys()];
  if (first === '--version' || first === '-v') return undefined;
  const words = helpWords.includes(first)
    ? more.filter((word) => !word.startsWith('-') && !helpWords.includes(word))
    : [first, ...more];
  const [named, second, third] = words;
  if (named === undefined) return undefined;
  const [command, next] = names.includes(`${named} ${second}`)
    ? [`${named} ${second}`, third]
    : [named, second];
  if (takesArguments.has(command)) {
    // oclif takes a word behind a command without arguments for a part of the command's name.
    if (next === undefined || next.startsWith('-') || takesArguments.get(command)) return undefined;
    return { word: next, behind: command };
  }
  const ofTopic = names.filter((name) => name.startsWith(`${named} `));
  if (ofTopic.length === 0)
    return { word: named, near: [...new Set(names.map((name) => name.replace(/ .*/, '')))] };
  // A topic alone shows its commands.
  if (second === undefined || second.startsWith('-')) return undefined;
  return { word: `${named} ${second}`, near: ofTopic };
}

/**
 * Runs the command line of this process.
 * @param directory a directory of the package, which has package.json and the command manifest
 */
export async function main(directory: string): Promise<void> {
  tolerateClosedPipes();
  process.once('exit', leaveClosedTerminals);
  nameShell();
  const config = await Config.load({ root: directory });
  const argv = process.argv.slice(2);
  const misplaced = misplacedWord(argv, typedNames(config));
  if (misplaced !== undefined) {
    const { refuseCommand } = await import('../cli/unknown-command.js');
    await refuseCommand(config.bin, misplaced, argv.includes('--json'));
    return;
  }
  if (argv[0] === '--version' || argv[0] === '-v') {
    process.stdout.once('error', ({ code, message }: NodeJS.ErrnoException) => {
      if (code !== 'EPIPE') process.stderr.write(`Error: Cannot write to stdout: ${message}\n`);
    });
  }
  // The plugin's help command knows no options of the help, and would list aliases. What `--help` shows is the same.
  const args = argv[0] === 'help' ? ['--help', ...argv.slice(1)] : argv;
  await execute({ args, loadOptions: config });
}
