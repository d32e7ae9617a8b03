import { userInfo } from 'node:os';
import { fileURLToPath } from 'node:url';
import { execute } from '@oclif/core/execute';
import type { PJSON } from '@oclif/core/interfaces';
import { leaveClosedTerminals, tolerateClosedPipes } from '../cli/terminal/standard-streams.js';
import { commands } from './commands.js';

/** oclif asks the file that it is bundled with for the commands: others would be built on another oclif. */
export { commands };

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

/**
 * The words in the place of a command that are none, and the commands that may have been meant; undefined where the command
 * line has a command, or needs none.
 */
function unknownCommand([first = '--help', ...more]: readonly string[], names: readonly string[]) {
  if (first === '--version' || first === '-v') return undefined;
  const words = helpWords.includes(first)
    ? more.filter((word) => !word.startsWith('-') && !helpWords.includes(word))
    : [first, ...more];
  const [named, second] = words;
  if (named === undefined || names.includes(named)) return undefined;
  const ofTopic = names.filter((name) => name.startsWith(`${named} `));
  if (ofTopic.length === 0)
    return { word: named, near: [...new Set(names.map((name) => name.replace(/ .*/, '')))] };
  // A topic alone shows its commands.
  if (second === undefined || second.startsWith('-') || names.includes(`${named} ${second}`))
    return undefined;
  return { word: `${named} ${second}`, near: ofTopic };
}

/**
 * Runs the command line of this process.
 * @param root the package's directory, which has the command manifest
 * @param description what its package.json says
 */
export async function main(root: string, description: PJSON): Promise<void> {
  tolerateClosedPipes();
  process.once('exit', leaveClosedTerminals);
  const argv = process.argv.slice(2);
  const names = Object.entries(commands).flatMap(([name, { aliases }]) => [
    name.replace(':', ' '),
    ...aliases,
  ]);
  const unknown = unknownCommand(argv, names);
  if (unknown !== undefined) {
    const { refuseCommand } = await import('../cli/unknown-command.js');
    const bin = description.oclif.bin ?? description.name;
    await refuseCommand(bin, unknown.word, unknown.near, argv.includes('--json'));
    return;
  }
  nameShell();
  const source = { ...Object(description.oclif.commands), target: fileURLToPath(import.meta.url) };
  await execute({
    // The plugin's help command knows no options of the help, and would list aliases. What `--help` shows is the same.
    args: argv[0] === 'help' ? ['--help', ...argv.slice(1)] : argv,
    loadOptions: { root, pjson: { ...description, oclif: { ...description.oclif, commands: source } } },
  });
}
