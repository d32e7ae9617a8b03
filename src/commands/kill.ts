import * as Flags from '@oclif/core/flags';
import { ClientCommand, killTimeoutFlag, tagFlag } from '../cli/command/index.js';
import { jobsToKill, type KillSummary, killJobs, optionalJobArgs } from '../cli/jobs/index.js';

export default class Kill extends ClientCommand {
  static override summary = 'Kill jobs';
  static override description =
    'A queued job never starts, and a running job is gone when the command returns. Prints one line per job: its ' +
    'outcome on stdout, or on stderr why it could not be killed; the other jobs are killed anyway. Exits with ' +
    'the highest of their exit codes. --tag, --owner and --all print how many jobs they kill, without asking.';
  static override examples = [
    '<%= config.bin %> kill 3f9a0c1b2d4e',
    '<%= config.bin %> kill 3f9a0c1b2d4e 77aa01bc23de',
    '<%= config.bin %> kill --tag study-7',
    '<%= config.bin %> kill --all',
  ];
  static override args = { jobs: optionalJobArgs };
  static override flags = {
    all: Flags.boolean({ description: 'Kill every active job submitted with this token' }),
    tag: tagFlag,
    owner: Flags.string({
      helpValue: 'NAME',
      description: "Kill every active job of the token with this name; requires an admin's token",
    }),
    timeout: killTimeoutFlag,
  };

  async run(): Promise<KillSummary> {
    const { args, flags } = await this.parse(Kill);
    const connection = await this.connect(flags);
    const reporter = await this.reporter();
    const ids = await jobsToKill(connection, args.jobs ?? [], flags, reporter);
    return killJobs(connection, ids, flags.timeout, reporter, this.jobsOutput());
  }
}
