import type { Interfaces } from '@oclif/core';
import { Config } from '@oclif/core/config';
import { CommandIo } from './command-io.js';

/**
 * Loads the configuration with which oclif runs commands that have these streams, environment and exit code. oclif makes a new
 * configuration for each command, with the options of this one.
 * @param root a directory of the package
 */
export async function loadConfig(root: string, io: CommandIo): Promise<Config> {
  const options: Interfaces.Options & { readonly io: CommandIo } = { root, io };
  const config = new Config(options);
  await config.load();
  return config;
}

/** The streams, environment and exit code of the commands of a configuration: by default those of the process. */
export function ioOf({ options }: Config): CommandIo {
  return 'io' in options && options.io instanceof CommandIo ? options.io : new CommandIo(process);
}
