import { readdirSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { pathJobId } from '../../client/connection/index.js';
import { UsageError } from '../../client/errors.js';
import { nextCommand } from '../../client/next-command.js';
import { excerpt, quotePath, shellWord } from '../../contract/index.js';
import {
  errorCode,
  faultWithoutPath,
  jsonText,
  makeDirectory,
  readSmallFile,
  writeJsonFile,
} from '../../files/index.js';
import type { Word } from './path-order.js';

/** A command that submitted a job, as `retry` repeats it. It holds no token. */
interface SubmittedCommand {
  /** The id of the command: `infer`. */
  readonly command: string;
  /** The directory that its paths are relative to. */
  readonly directory: string;
  /** Flags and arguments; `flag` is null for an argument. */
  readonly words: readonly { readonly flag: string | null; readonly text: string }[];
}

/** How many commands are kept: those of the newest jobs. */
const maxKept = 200;
/** Bytes of one command: a shell may have expanded a pattern to thousands of paths. */
const maxBytes = 1 << 20;

const directoryOf = (configDir: string): string => path.join(configDir, 'submitted');
const fileOf = (configDir: string, jobId: string): string =>
  path.join(directoryOf(configDir), `${jobId}.json`);

/**
 * A command line that can be repeated, including the settings from the environment or a profile.
 * @param settled flags whose values may have come from the environment or a profile
 * @param booleans names of the flags that take no value
 */
export function commandWords(
  words: readonly Word[],
  settled: Readonly<Record<string, string | undefined>>,
  booleans: ReadonlySet<string>,
): SubmittedCommand['words'] {
  const given = words
    .filter(({ flag }) => flag !== 'token' && flag !== 'json' && !(flag !== undefined && flag in settled))
    .map(({ flag, input }) => {
      // A path that begins with a dash would be read as a flag.
      if (flag === undefined) return { flag: null, text: input.startsWith('-') ? `./${input}` : input };
      if (!booleans.has(flag)) return { flag, text: `--${flag}=${input}` };
      return { flag, text: input.startsWith('--no-') ? `--no-${flag}` : `--${flag}` };
    });
  const known = Object.entries(settled).flatMap(([flag, value]) =>
    value === undefined ? [] : [{ flag, text: `--${flag}=${value}` }],
  );
  return [...known, ...given];
}

/** Removes the oldest commands. */
function prune(directory: string): void {
  const names = readdirSync(directory);
  if (names.length <= maxKept) return;
  const byAge = names
    .map((name) => ({ name, time: statSync(path.join(directory, name)).mtimeMs }))
    .sort((a, b) => a.time - b.time);
  for (const { name } of byAge.slice(0, -maxKept)) rmSync(path.join(directory, name), { force: true });
}

/**
 * Keeps the command of a job, readable by its owner alone. Never throws: without the file only `retry` fails, with an
 * explanation.
 */
export function keepCommand(configDir: string, jobId: string, command: SubmittedCommand): void {
  try {
    if (!pathJobId.test(jobId) || Buffer.byteLength(jsonText(command)) > maxBytes) return;
    const directory = directoryOf(configDir);
    makeDirectory(directory, 0o700);
    writeJsonFile(fileOf(configDir, jobId), command, { isKept: false });
    prune(directory);
  } catch {
    // An unwritable home directory must not make a submission fail.
  }
}

const isText = (value: unknown): value is string => typeof value === 'string';

/**
 * The command of a job.
 * @throws UsageError if it is not known on this machine
 */
function keptCommand(configDir: string, jobId: string): SubmittedCommand {
  const file = fileOf(configDir, jobId);
  try {
    const { command, directory, words } = JSON.parse(readSmallFile(file, maxBytes)) as SubmittedCommand;
    const areWords = Array.isArray(words) && words.every(({ text }) => isText(text));
    if (isText(command) && isText(directory) && areWords) return { command, directory, words };
    throw new SyntaxError('another shape');
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT') {
      throw new UsageError(
        `How job ${jobId} was submitted is not known here: it was submitted from another machine or by another program, or ` +
          `more than ${maxKept} jobs ago; '${nextCommand(`status ${jobId}`)}' says what the server knows`,
      );
    }
    const problem =
      cause instanceof Error && errorCode(cause) !== '' ? faultWithoutPath(cause) : 'it is damaged';
    throw new UsageError(
      `${quotePath(file)} cannot be read: ${problem}; submit the job again by its own command`,
    );
  }
}

/** Flags of `retry` that replace other flags as well. */
const replaces: Readonly<Record<string, readonly string[]>> = {
  detach: ['output', 'force', 'wait'],
  output: ['detach'],
  force: ['detach'],
  server: ['profile'],
  profile: ['server'],
};

/** The flags that were typed for `retry`. */
function typedWords(words: readonly Word[], booleans: ReadonlySet<string>, output: string | undefined) {
  return words.flatMap(({ flag, input }) => {
    if (flag === undefined || flag === 'json') return [];
    if (booleans.has(flag)) return [{ flag, text: `--${flag}` }];
    // The command runs in another directory.
    const value = flag === 'output' && output !== '-' ? path.resolve(input) : input;
    return [{ flag, text: `--${flag}=${value}` }];
  });
}

/**
 * Goes to the directory in which a job was submitted, and says what was typed there.
 * @param typed the command line of `retry`, whose flags replace those of the job's command
 * @throws UsageError if this machine does not know the job's command, or the directory is gone
 */
export function commandAgain(
  configDir: string,
  jobId: string,
  typed: readonly Word[],
  booleans: ReadonlySet<string>,
  output: string | undefined,
): { readonly command: string; readonly argv: string[]; readonly shown: string } {
  const { command, directory, words } = keptCommand(configDir, jobId);
  const own = typedWords(typed, booleans, output);
  const replaced = new Set(own.flatMap(({ flag }) => [flag, ...(replaces[flag] ?? [])]));
  const kept = words.filter(({ flag }) => flag === null || !replaced.has(flag));
  try {
    process.chdir(directory);
  } catch (cause) {
    throw new UsageError(
      `Job ${jobId} was submitted in ${quotePath(directory)}, which cannot be entered: ${faultWithoutPath(cause)}`,
    );
  }
  const argv = [...own, ...kept].map(({ text }) => text);
  const shown = [...own, ...kept].filter(({ flag }) => flag !== 'token').map(({ text }) => shellWord(text));
  return { command, argv, shown: excerpt([command, ...shown].join(' '), 500) };
}
