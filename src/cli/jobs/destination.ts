import { UsageError } from '../../client/errors.js';
import type { Destination, OutputDirectory } from '../../client/result/index.js';
import { defaultOutput } from '../../contract/index.js';

/** The flags that say where a result goes. */
export interface OutputFlags {
  readonly output?: string | undefined;
  readonly force: boolean;
}

/** What stands for stdout. */
const toStdout = '-';

/** Whether the zip goes to stdout, which nothing else may use then. */
export const isToStdout = ({ output }: OutputFlags): boolean => output === toStdout;

/** The directory of the flags. Only where none was named, a numbered one beside it will do. */
export function outputDirectory({ output, force }: OutputFlags): OutputDirectory {
  if (output === '') throw new UsageError('--output is empty; name a directory');
  const taken = force ? 'replace' : output === undefined ? 'number' : 'refuse';
  return { directory: output ?? defaultOutput, taken };
}

/**
 * Where a result goes. Checked before anything is sent, so that no job is run for a result that has no place.
 * @throws UsageError if stdout would have to be a zip and a JSON document at once, or is a terminal; or for a directory that
 * has other files or cannot be written
 */
export async function readDestination(flags: OutputFlags, json: boolean): Promise<Destination> {
  if (isToStdout(flags)) {
    if (json) throw new UsageError('-o - and --json both want stdout; choose one');
    if (process.stdout.isTTY) {
      throw new UsageError('A zip is nothing for a terminal; name a directory with -o, or redirect stdout');
    }
    return { stream: process.stdout };
  }
  const output = outputDirectory(flags);
  const { checkOutput, foreseePlace } = await import('../../client/result/index.js');
  if (output.taken !== 'number') checkOutput(output.directory);
  const place = foreseePlace(output);
  if (output.taken === 'number') checkOutput(place);
  return output;
}
