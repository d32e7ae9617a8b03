import type { Interfaces } from '@oclif/core';
import { UsageError } from '../../client/errors.js';
import { bashScript } from './bash.js';
import { completedCommands } from './command-list.js';
import { fishScript } from './fish.js';
import { type Shell, shells } from './kinds.js';
import { zshScript } from './zsh.js';

const scripts = { bash: bashScript, zsh: zshScript, fish: fishScript } satisfies Record<Shell, unknown>;

/**
 * The completion script of a shell: the commands and flags of this version; values are asked for when Tab is pressed.
 * @throws UsageError where no shell is named
 */
export function completionScript(shell: Shell | undefined, config: Interfaces.Config): string {
  if (!shell) throw new UsageError(`Name a shell: ${shells.join(', ')}`);
  return scripts[shell](config.bin, completedCommands(config)).trimEnd();
}
