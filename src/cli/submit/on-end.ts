import { exitCodes, oneLine } from '../../contract/index.js';
import { runProgram } from '../../programs/index.js';
import type { CommandIo } from '../terminal/index.js';

/** Maximum run time of the command, in milliseconds. */
const longest = 30_000;

/**
 * The document that the command of `--on-end` gets on stdin. It may be forwarded anywhere, so it contains no file names and no
 * secrets.
 */
export interface EndedCommand {
  /** As it is typed, such as `infer`. */
  readonly command: string;
  readonly exit_code: number;
  readonly seconds: number;
  /** Null if the command ended before an app was chosen. */
  app: string | null;
  /** Null with `--each`, and if no job was accepted. */
  job_id: string | null;
  /** Numbers of cases; null without `--each`, and after an interruption or an error that ended the whole command. */
  cases: { readonly done: number; readonly failed: number; readonly left: number } | null;
}

function statusOf(exitCode: number): 'done' | 'failed' | 'interrupted' {
  if (exitCode === 0) return 'done';
  return exitCode === exitCodes.interrupted ? 'interrupted' : 'failed';
}

/**
 * Runs the user's command in a shell, with its output on stderr, and ends processes that it leaves behind. Never rejects.
 * @returns why the command failed; null if it succeeded
 */
export async function runOnEnd(
  command: string,
  ended: EndedCommand,
  io: Pick<CommandIo, 'env' | 'stderr'> = process,
): Promise<string | null> {
  const document = { ...ended, status: statusOf(ended.exit_code) };
  try {
    const { exitCode, signal, endedFor } = await runProgram([command], {
      shell: true,
      environment: io.env,
      cwd: process.cwd(),
      input: `${JSON.stringify(document)}\n`,
      output: io.stderr,
      limit: longest,
      endsOnSignals: true,
    });
    if (endedFor !== null) return `it was ended after ${longest / 1000} s`;
    if (exitCode === 0) return null;
    return signal === null ? `exit code ${exitCode}` : `ended by ${signal}`;
  } catch (cause) {
    return oneLine((cause as Error).message);
  }
}
