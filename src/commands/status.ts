import { ClientCommand } from '../cli/command/index.js';
import { describeJob, namedOrLast, optionalJobArg } from '../cli/jobs/index.js';
import { type JobAnswer, job } from '../client/connection/index.js';

export default class Status extends ClientCommand {
  static override summary = 'Show the state of a job';
  static override description =
    'Shows what the job is doing, what it is waiting for, and how long its result is kept.';
  static override examples = [
    '<%= config.bin %> status 3f9a0c1b2d4e',
    '<%= config.bin %> status',
    '<%= config.bin %> status 3f9a0c1b2d4e --json',
  ];
  static override args = { job: optionalJobArg };

  async run(): Promise<JobAnswer> {
    const { args, flags } = await this.parse(Status);
    const connection = await this.connect(flags);
    const id = namedOrLast(args.job, this.config.configDir, connection, await this.reporter());
    const view = await job(connection, id);
    await this.print(describeJob(view, connection.now(), this.io.colours(this.io.stdout), connection));
    return view;
  }
}
