import * as Flags from '@oclif/core/flags';
import { parseSize, readDuration } from '../../contract/index.js';
import { FlagValueError, readPath } from '../command/index.js';

/** Reads a size, in bytes. @throws FlagValueError */
export function size(flag: string, text: string): number {
  const bytes = parseSize(text);
  if (bytes === undefined || bytes < 1) {
    throw new FlagValueError(flag, 'a size such as 2GiB, 2G (the same) or 500MB', text);
  }
  return bytes;
}

/** Bytes that Node and Python need to start and do anything useful. */
const minMemory = 64 * 2 ** 20;

/** Reads the memory limit of a job, in bytes. @throws FlagValueError for less than a program needs to start */
export function jobMemory(flag: string, text: string): number {
  const bytes = size(flag, text);
  if (bytes < minMemory) throw new FlagValueError(flag, 'a size of at least 64MiB, such as 8GiB', text);
  return bytes;
}

/** Reads a duration, in milliseconds. @throws FlagValueError */
export function duration(flag: string, text: string): number {
  const seconds = readDuration(text);
  if (seconds === undefined) throw new FlagValueError(flag, 'a time such as 90s, 12h or 7d', text);
  return seconds * 1000;
}

/** Reads a run time limit, in milliseconds. @throws FlagValueError for zero */
export function runTime(flag: string, text: string): number {
  const time = duration(flag, text);
  if (time === 0) throw new FlagValueError(flag, 'a time of at least a second, such as 2h', text);
  return time;
}

/** @throws FlagValueError for a blank text */
function notEmpty(flag: string, text: string): string {
  if (text.trim() === '') throw new FlagValueError(flag, 'a value that is not empty', text);
  return text;
}

/**
 * A flag whose text is checked at parse time, so that an error in a configuration file names the line. The text is converted
 * later.
 */
const checked = (read: (flag: string, text: string) => unknown) =>
  Flags.custom<string>({
    parse: async (input, _, { name }) => {
      read(name, input);
      return input;
    },
  });

export const sizeFlag = checked(size);
export const jobMemoryFlag = checked(jobMemory);
export const durationFlag = checked(duration);
export const runTimeFlag = checked(runTime);
/** A name, a command or an address. It must not be empty: an empty host would mean every address. */
export const textFlag = checked(notEmpty);
/** A path. It must not be empty: that would mean the working directory. */
export const filledPathFlag = Flags.custom<string>({
  parse: async (input, _, { name }) => readPath(name, notEmpty(name, input)),
});
