import { ClientCommand, tagFlag } from '../cli/command/index.js';
import { jobsToRemove, optionalJobArgs, type RemovalSummary, removeJobs } from '../cli/jobs/index.js';

export default class Rm extends ClientCommand {
  static override summary = 'Remove finished jobs and their results';
  static override description =
    'Frees the space that jobs take on the server before they expire. A download in progress is not interrupted. ' +
    'An active job must be killed first; a job that is already gone counts as removed.';
  static override examples = [
    '<%= config.bin %> rm 3f9a0c1b2d4e',
    '<%= config.bin %> rm 3f9a0c1b2d4e 77aa01bc23de',
    '<%= config.bin %> rm --tag study-7',
  ];
  static override args = { jobs: optionalJobArgs };
  static override flags = { tag: tagFlag };

  async run(): Promise<RemovalSummary> {
    const { args, flags } = await this.parse(Rm);
    const [connection, reporter] = [await this.connect(flags), await this.reporter()];
    const ids = await jobsToRemove(connection, args.jobs ?? [], flags.tag, reporter);
    return removeJobs(connection, ids, reporter, this.jobsOutput());
  }
}
