import type { Interfaces } from '@oclif/core';
import { UsageError } from '../../client/errors.js';
import { sentenceOf } from '../usage-errors.js';
import { readConfig } from './config-file.js';

/**
 * The arguments that a configuration file stands for, without the flags that were typed.
 * @param typed names of the flags that were typed
 * @param parse as the command parses its arguments
 * @throws UsageError that names the file and the line
 */
export async function configuredArguments(
  file: string,
  flags: Interfaces.FlagInput,
  typed: ReadonlySet<string>,
  parse: (argv: string[]) => Promise<unknown>,
): Promise<string[]> {
  const configured = readConfig(file, flags);
  // Each for itself, so that an error can say where it is.
  for (const { argv, where } of configured) {
    await parse([...argv]).catch((cause: Error) => {
      throw new UsageError(`${where}: ${sentenceOf(cause, flags)}`, { cause });
    });
  }
  return configured.filter(({ name }) => !typed.has(name)).flatMap(({ argv }) => argv);
}
