import { readdirSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { pathJobId, readServerUrl, showServerUrl } from '../../client/connection/index.js';
import { UsageError } from '../../client/errors.js';
import { nextCommand } from '../../client/next-command.js';
import type { Reporter } from '../../client/reporter.js';
import { quotePath } from '../../contract/index.js';
import {
  errorCode,
  faultWithoutPath,
  jsonText,
  makeDirectory,
  readSmallFile,
  writeJsonFile,
} from '../../files/index.js';

/** A command that sent a job, as `retry` repeats it. It holds no token. */
export interface SentCommand {
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

/** The files of the commands, newest first. */
function newestFirst(directory: string): { readonly name: string; readonly time: number }[] {
  return readdirSync(directory)
    .flatMap((name) => {
      const stats = statSync(path.join(directory, name), { throwIfNoEntry: false });
      return stats ? [{ name, time: stats.mtimeMs }] : [];
    })
    .sort((a, b) => b.time - a.time);
}

/**
 * Keeps the command that sent a job, readable by its user alone; those of older jobs are removed. Never throws: a home
 * directory that cannot be written must not make a submission fail.
 */
export function keepCommand(configDir: string, jobId: string, command: SentCommand): void {
  try {
    if (!pathJobId.test(jobId) || Buffer.byteLength(jsonText(command)) > maxBytes) return;
    const directory = directoryOf(configDir);
    makeDirectory(directory, 0o700);
    writeJsonFile(fileOf(configDir, jobId), command, { isKept: false });
    for (const { name } of newestFirst(directory).slice(maxKept))
      rmSync(path.join(directory, name), { force: true });
  } catch {
    // See above.
  }
}

/** @throws the system's error, or SyntaxError for a file that is damaged */
function readCommand(file: string): SentCommand {
  const { command, directory, words } = JSON.parse(readSmallFile(file, maxBytes)) as SentCommand;
  const areWords = Array.isArray(words) && words.every(({ text }) => typeof text === 'string');
  if (typeof command === 'string' && typeof directory === 'string' && areWords)
    return { command, directory, words };
  throw new SyntaxError('another shape');
}

/** @throws UsageError for a job that was not sent from here, and for a file that cannot be read */
export function keptCommand(configDir: string, jobId: string): SentCommand {
  const file = fileOf(configDir, jobId);
  try {
    return readCommand(file);
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT') {
      throw new UsageError(
        `How job ${jobId} was submitted is not known here. A job of a run with --each is repeated by giving that command again; ` +
          `others are known on the machine that sent them, the last ${maxKept}; '${nextCommand(`status ${jobId}`)}' says what the server knows`,
      );
    }
    const problem =
      cause instanceof Error && errorCode(cause) !== '' ? faultWithoutPath(cause) : 'it is damaged';
    throw new UsageError(
      `${quotePath(file)} cannot be read: ${problem}; submit the job again by its own command`,
    );
  }
}

/** The server that a kept command was given for; undefined for a file of an earlier version without it. */
function serverOf({ words }: SentCommand): string | undefined {
  const text = words.find(({ flag }) => flag === 'server')?.text.replace(/^--server=/, '');
  return text === undefined ? undefined : showServerUrl(readServerUrl(text));
}

/** The last job that was sent from a directory to a server. */
function lastSent(configDir: string, directory: string, server: string): string | undefined {
  try {
    const found = newestFirst(directoryOf(configDir)).find(({ name }) => {
      try {
        const command = readCommand(path.join(directoryOf(configDir), name));
        return command.directory === directory && serverOf(command) === server;
      } catch {
        return false;
      }
    });
    return found && path.basename(found.name, '.json');
  } catch {
    return undefined;
  }
}

/**
 * The job that a command is about: the one that was named, otherwise the last one sent from this directory, which is said.
 * @throws UsageError if none was
 */
export function namedOrLast(
  named: string | undefined,
  configDir: string,
  { server }: { readonly server: string },
  reporter: Reporter,
): string {
  if (named !== undefined) return named;
  const last = lastSent(configDir, process.cwd(), server);
  if (last === undefined)
    throw new UsageError(
      `No job was sent to ${server} from this directory: name one; '${nextCommand('jobs')}' lists them`,
    );
  reporter.note(`Job ${last}, the last one sent from here`);
  return last;
}
