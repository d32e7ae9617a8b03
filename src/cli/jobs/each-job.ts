import type { JobsOutput } from '../command/index.js';
import { type ErrorDocument, tellError } from '../terminal/index.js';

/** A job for which a command failed, and why. */
export type JobFailure = { readonly job_id: string } & ErrorDocument;

/** Makes the process end with the highest exit code so far. */
export function exitWithWorst(exitCode: number): void {
  process.exitCode = Math.max(Number(process.exitCode ?? 0), exitCode);
}

/** Reports the error of one job; the command continues with the others. */
export async function tellFailure(id: string, error: Error, output: JobsOutput): Promise<JobFailure> {
  const document = output.explain(error);
  const { message, exit_code } = document.error;
  if (!output.json) {
    tellError(message.includes(id) ? message : `${id}: ${message}`, []);
  }
  exitWithWorst(exit_code);
  return { job_id: id, ...document };
}
