import type { JobsOutput } from '../command/index.js';
import type { ErrorDocument } from '../terminal/index.js';

/** A job for which a command failed, and why. */
export type JobFailure = { readonly job_id: string } & ErrorDocument;

/** Reports the error of one job; the command continues with the others. */
export async function tellFailure(id: string, error: Error, output: JobsOutput): Promise<JobFailure> {
  const document = output.explain(error);
  const { message, exit_code } = document.error;
  if (!output.json) {
    output.io.tellError(message.includes(id) ? message : `${id}: ${message}`, []);
  }
  output.io.exitWithWorst(exit_code);
  return { job_id: id, ...document };
}
