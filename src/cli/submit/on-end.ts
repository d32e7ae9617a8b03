import { exitCodes, oneLine } from '../../contract/index.js';
import { runProgram } from '../../programs/index.js';
import type { CommandIo } from '../terminal/index.js';

/** Milliseconds that the command may take. */
const longest = 30_000;

/** What the command of `--on-end` gets on stdin, as JSON. It may be sent anywhere: it names no file and has no secret. */
export interface EndedCommand {
  /** As it is typed, such as `infer`. */
  readonly command: string;
  readonly exit_code: number;
  readonly seconds: number;
  /** Null if the command ended before it was chosen. */
  app: string | null;
  /** Null with `--each`, and if no job was accepted. */
  job_id: string | null;
  /** How many there are; null without `--each`, and after an interruption or an error that ended the whole command. */
  cases: { readonly done: number; readonly failed: number; readonly left: number } | null;
}

function statusOf(exitCode: number): 'done' | 'failed' | 'interrupted' {
  if (exitCode === 0) return 'done';
  return exitCode === exitCodes.interrupted ? 'interrupted' : 'failed';
}

/**
 * Runs a command of the person in a shell, with its output on stderr, and ends what it has left. Never rejects.
 * @returns why it failed; null if it did not
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
