import { userInfo } from 'node:os';
import { fileURLToPath } from 'node:url';
import { execute } from '@oclif/core/execute';
import type { PJSON } from '@oclif/core/interfaces';
import { tolerateClosedPipes } from '../cli/standard-streams.js';

/** oclif asks the file that it is bundled with for the commands: others would be built on another oclif. */
export { commands } from './commands.js';

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

/**
 * Runs the command line of this process.
 * @param root the package's directory, which has the command manifest
 * @param description what its package.json says
 */
export async function main(root: string, description: PJSON): Promise<void> {
  const commands = { ...Object(description.oclif.commands), target: fileURLToPath(import.meta.url) };
  tolerateClosedPipes();
  nameShell();
  await execute({
    loadOptions: { root, pjson: { ...description, oclif: { ...description.oclif, commands } } },
  });
}
