import { userInfo } from 'node:os';
import { Config } from '@oclif/core';
import { execute } from '@oclif/core/execute';
import { leaveClosedTerminals, tolerateClosedPipes } from '../cli/terminal/index.js';
import { misplacedWord, refuseCommand } from './misplaced-word.js';

/**
 * If SHELL is not set, oclif looks up the user's shell, and fails if the user has no entry in passwd, as in many
 * containers. The value itself does not matter.
 */
function nameShell(): void {
  if (process.env.SHELL !== undefined) return;
  try {
    userInfo();
  } catch {
    process.env.SHELL = '/bin/sh';
  }
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
  const misplaced = misplacedWord(argv, config);
  if (misplaced !== undefined) {
    await refuseCommand(config.bin, misplaced, argv.includes('--json'));
    return;
  }
  // The plugin's own help command does not know the options of this help, and would list aliases. What `--help` shows is
  // the same.
  const args = argv[0] === 'help' ? ['--help', ...argv.slice(1)] : argv;
  await execute({ args, loadOptions: config });
}
