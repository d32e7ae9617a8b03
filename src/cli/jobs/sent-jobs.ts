import { readServerUrl, showServerUrl } from '../../client/connection/index.js';
import { UsageError } from '../../client/errors.js';
import { nextCommand } from '../../client/next-command.js';
import type { Reporter } from '../../client/reporter.js';
import {
  commandsNewestFirst,
  keepSentJob,
  maxSentJobs,
  readSentJob,
  sentJobFile,
} from '../../client/sent-jobs.js';
import { quotePath } from '../../contract/index.js';
import { errorCode, faultWithoutPath, jsonText } from '../../files/index.js';

/** A command that sent a job, saved so that `retry` can repeat it. It contains no token. */
export interface SentCommand {
  /** The id of the command: `infer`. */
  readonly command: string;
  /** The directory that its paths are relative to. */
  readonly directory: string;
  /** Flags and arguments; `flag` is null for an argument. */
  readonly words: readonly { readonly flag: string | null; readonly text: string }[];
}

/** Maximum size of one saved command, in bytes: a shell may have expanded a pattern to thousands of paths. */
const maxBytes = 1 << 20;

/** Saves the command that sent a job. Never throws. */
export function keepCommand(configDir: string, jobId: string, command: SentCommand): void {
  if (Buffer.byteLength(jsonText(command)) <= maxBytes) keepSentJob(configDir, jobId, 'command', command);
}

/** @throws the system's error, or SyntaxError for a file that is damaged */
function readCommand(configDir: string, jobId: string): SentCommand {
  const read = readSentJob(configDir, jobId, 'command', maxBytes);
  const { command, directory, words } = read as SentCommand;
  const areWords = words.every(({ text }) => typeof text === 'string');
  if (typeof command === 'string' && typeof directory === 'string' && areWords)
    return { command, directory, words };
  throw new SyntaxError('another shape');
}

/** @throws UsageError for a job that was not sent from this machine, and for a file that cannot be read */
export function keptCommand(configDir: string, jobId: string): SentCommand {
  try {
    return readCommand(configDir, jobId);
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT') {
      throw new UsageError(
        `How job ${jobId} was submitted is not known here. A job of a run with --each is repeated by giving that command again; ` +
          `others are known on the machine that sent them, the last ${maxSentJobs}; '${nextCommand(`status ${jobId}`)}' says what the server knows`,
      );
    }
    const problem =
      cause instanceof Error && errorCode(cause) !== '' ? faultWithoutPath(cause) : 'it is damaged';
    throw new UsageError(
      `${quotePath(sentJobFile(configDir, jobId, 'command'))} cannot be read: ${problem}; submit the job again by its own command`,
    );
  }
}

/** The server that a saved command was sent to; undefined if the file does not name one. */
function serverOf({ words }: SentCommand): string | undefined {
  const text = words.find(({ flag }) => flag === 'server')?.text.replace(/^--server=/, '');
  return text === undefined ? undefined : showServerUrl(readServerUrl(text));
}

/** The last job that was sent from a directory to a server. */
function lastSent(configDir: string, directory: string, server: string): string | undefined {
  try {
    return commandsNewestFirst(configDir).find((jobId) => {
      try {
        const command = readCommand(configDir, jobId);
        return command.directory === directory && serverOf(command) === server;
      } catch {
        return false;
      }
    });
  } catch {
    return undefined;
  }
}

/**
 * The job that a command acts on: the named one, otherwise the last one sent from this directory, which is then reported.
 * @throws UsageError if no job was sent from this directory
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
