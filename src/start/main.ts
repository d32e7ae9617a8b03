import { userInfo } from 'node:os';
import type { Config } from '@oclif/core';
import * as Errors from '@oclif/core/errors';
import { loadHelpClass } from '@oclif/core/help';
import { type CommandIo, loadConfig } from '../cli/terminal/index.js';
import { exitCodes } from '../contract/index.js';
import { misplacedWord, refuseCommand } from './misplaced-word.js';

/**
 * If SHELL is not set, oclif looks up the user's shell, and fails if the user has no entry in passwd, as in many
 * containers. The value itself does not matter.
 */
function nameShell(env: NodeJS.ProcessEnv): void {
  if (env.SHELL !== undefined) return;
  try {
    userInfo();
  } catch {
    env.SHELL = '/bin/sh';
  }
}

const versionFlags = ['--version', '-v'];
const helpFlags = ['--help', '-h'];

/** Whether the help is asked for: by a flag, or by naming no command. */
function isForHelp(args: readonly string[]): boolean {
  const end = args.indexOf('--');
  const own = end < 0 ? args : args.slice(0, end);
  return args.length === 0 || own.some((each) => helpFlags.includes(each));
}

async function showHelp(config: Config, args: string[]): Promise<void> {
  const Help = await loadHelpClass(config);
  await new Help(config, config.pjson.oclif.helpOptions).showHelp(args);
}

/** Runs what a command line names. @throws ExitError */
async function run(config: Config, args: string[], io: CommandIo): Promise<void> {
  const [first = '', second = ''] = args;
  if (versionFlags.includes(first)) await io.writeOut(`${config.userAgent}\n`);
  else if (isForHelp(args)) await showHelp(config, args);
  else if (config.findCommand(`${first}:${second}`))
    await config.runCommand(`${first}:${second}`, args.slice(2));
  else if (config.findCommand(first)) await config.runCommand(first, args.slice(1));
  // A topic on its own shows its commands.
  else await showHelp(config, [first]);
}

/**
 * Runs a command line. Afterwards, `io` has the exit code.
 * @param directory a directory of the package, which contains package.json and the command manifest
 */
export async function main(directory: string, args: readonly string[], io: CommandIo): Promise<void> {
  nameShell(io.env);
  const config = await loadConfig(directory, io);
  const misplaced = misplacedWord(args, config);
  if (misplaced !== undefined) {
    await refuseCommand(config.bin, misplaced, io, args.includes('--json'));
    return;
  }
  try {
    // The plugin's own help command does not know this program's help options, and would list aliases. `--help` shows the same
    // text.
    await run(config, args[0] === 'help' ? ['--help', ...args.slice(1)] : [...args], io);
  } catch (error) {
    if (error instanceof Errors.ExitError) {
      io.exitCode ||= error.oclif.exit ?? exitCodes.done;
      return;
    }
    io.tellError(error instanceof Error ? error.message : String(error), []);
    io.exitCode ||= exitCodes.failed;
  }
}
