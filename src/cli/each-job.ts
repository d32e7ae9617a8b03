import { type ErrorDocument, tellError } from './terminal/tell-error.js';

/** A job for which a command failed, and why. */
export type JobFailure = { readonly job_id: string } & ErrorDocument;

/** What a command about several jobs tells with. */
export interface JobsOutput {
  /** Prints the line of a job; does nothing with `--json`. */
  readonly print: (line: string) => Promise<void>;
  /** What the document of `--json` says of an error. */
  readonly explain: (error: Error) => ErrorDocument;
  /** Whether that document is printed at the end: then it alone tells of the errors. */
  readonly json: boolean;
}

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
