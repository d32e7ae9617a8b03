import { ClientCommand } from '../cli/client-command.js';
import { jobArgs } from '../cli/jobs/job-arg.js';
import { type RemovalSummary, removeJobs } from '../cli/jobs/remove-jobs.js';

export default class Rm extends ClientCommand {
  static override summary = 'Remove jobs that have ended, and their results';
  static override description =
    'Frees the room that a job takes on the server before its time is over. A download under way is not cut. ' +
    'A job that is active has to be killed first; one that is gone already counts as removed.';
  static override examples = [
    '<%= config.bin %> rm 3f9a0c1b2d4e',
    '<%= config.bin %> rm 3f9a0c1b2d4e 77aa01bc23de',
  ];
  static override args = { jobs: jobArgs };

  async run(): Promise<RemovalSummary> {
    const { args, flags } = await this.parse(Rm);
    return removeJobs(await this.connect(flags), args.jobs, await this.reporter(), this.jobsOutput());
  }
}
