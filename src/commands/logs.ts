import * as Flags from '@oclif/core/flags';
import { ClientCommand, wholeNumber } from '../cli/command/index.js';
import { followJob, type LogSummary, namedOrLast, optionalJobArg } from '../cli/jobs/index.js';
import type { ErrorDocument } from '../cli/terminal/index.js';

export default class Logs extends ClientCommand {
  static override summary = "Follow a job's log to its end";
  static override description =
    'Prints the log from its first line, then follows it. If another command is already following it, new lines ' +
    'arrive about once a second. A progress bar is redrawn in place on a terminal; elsewhere only its last state ' +
    'is printed. Exits with 1 if the job failed. With --json, each line is a document, {"line": 1, "text": ' +
    '"..."}, printed as it arrives ("redraw": true marks a state of a progress bar that is followed by another), ' +
    "and the last document has the job's status or an error.";
  static override examples = [
    '<%= config.bin %> logs 3f9a0c1b2d4e',
    '<%= config.bin %> logs 3f9a0c1b2d4e --tail 20',
    '<%= config.bin %> logs 3f9a0c1b2d4e --since 1000 | grep loss',
    "<%= config.bin %> logs 3f9a0c1b2d4e --json | jq -r 'select(.text) | .text'",
  ];
  static override args = { job: optionalJobArg };
  static override flags = {
    since: wholeNumber({
      min: 0,
      helpValue: 'N',
      exclusive: ['tail'],
      description: 'Number of lines to skip',
    }),
    tail: wholeNumber({
      min: 0,
      helpValue: 'N',
      description: 'Start with the last N lines; each state of a progress bar counts as a line',
    }),
    all: Flags.boolean({ description: 'Print every state of a progress bar on a line of its own' }),
  };
  protected override jsonLines = true;

  /** The last document has the state of the job at its top, however the job ended. */
  override toErrorJson(error: Error): ErrorDocument & { job_id?: unknown; status?: unknown } {
    const document = super.toErrorJson(error);
    const { job_id, status }: Record<string, unknown> = { ...document.error };
    return typeof status === 'string' ? { job_id, status, ...document } : document;
  }

  async run(): Promise<LogSummary> {
    const { args, flags } = await this.parse(Logs);
    const { since, tail, all } = flags;
    const [connection, reporter] = [await this.connect(flags, true), await this.logReporter(all)];
    const id = namedOrLast(args.job, this.config.configDir, connection, reporter);
    return followJob(connection, id, { since, tail }, reporter, this.config.configDir);
  }
}
