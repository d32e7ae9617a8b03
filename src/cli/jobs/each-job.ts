import type { JobsOutput } from '../command/index.js';
import { type ErrorDocument, tellError } from '../terminal/index.js';

/** A job for which a command failed, and why. */
export type JobFailure = { readonly job_id: string } & ErrorDocument;

/** Makes the process end with the worst of several exit codes, which is the highest. */
export function exitWithWorst(exitCode: number): void {
  process.exitCode = Math.max(Number(process.exitCode ?? 0), exitCode);
}

/** Tells of an error of one job, by its id; the command goes on with the others. */
export async function tellFailure(id: string, error: Error, output: JobsOutput): Promise<JobFailure> {
  const document = output.explain(error);
  const { message, exit_code } = document.error;
  if (!output.json) {
    tellError(message.includes(id) ? message : `${id}: ${message}`, []);
  }
  exitWithWorst(exit_code);
  return { job_id: id, ...document };
}
