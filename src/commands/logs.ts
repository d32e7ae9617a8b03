import { Flags } from '@oclif/core';
import { ClientCommand } from '../cli/client-command.js';
import { followJob, type LogSummary } from '../cli/follow-job.js';
import { jobArg } from '../cli/job-arg.js';
import { wholeNumber } from '../cli/usage-errors.js';

export default class Logs extends ClientCommand {
  static override summary = "Follow a job's log to its end";
  static override description =
    'Prints the log from its first line, then follows it. Ends with 1 where the job failed. Of a progress bar, which is \
redrawn in place on a terminal, the last state is printed.';
  static override examples = [
    '<%= config.bin %> logs 3f9a0c1b2d4e',
    '<%= config.bin %> logs 3f9a0c1b2d4e --since 1000 | grep loss',
  ];
  static override args = { job: jobArg };
  static override flags = {
    since: wholeNumber({ min: 0, default: 0, helpValue: 'N', description: 'Lines to skip' }),
    all: Flags.boolean({ description: 'Print every state of a progress bar, each as a line' }),
  };

  async run(): Promise<LogSummary> {
    const { args, flags } = await this.parse(Logs);
    return followJob(
      await this.connect(flags),
      args.job,
      flags.since,
      await this.reporter({ all: flags.all }),
    );
  }
}
