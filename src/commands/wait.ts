import { ClientCommand, seconds, tagsFlag } from '../cli/command/index.js';
import {
  jobsToWaitFor,
  namedOrLast,
  optionalJobArgs,
  type WaitSummary,
  waitForJobs,
} from '../cli/jobs/index.js';

export default class Wait extends ClientCommand {
  static override summary = 'Wait for jobs to end';
  static override description =
    'Prints a line with the id and state of each job as it ends. Exits with the highest of their exit codes: 0 ' +
    'done, 1 failed or killed, 2 unknown or expired, 3 still active after --timeout, 5 server not reached. The ' +
    'command waits for a server that restarts. Interrupting it does not affect the jobs. With --tag, jobs that ' +
    'have already ended count too.';
  static override examples = [
    '<%= config.bin %> wait 3f9a0c1b2d4e',
    '<%= config.bin %> wait 3f9a0c1b2d4e 77aa01bc23de --timeout 3600',
    '<%= config.bin %> wait --tag study-7 --tag study-8',
    '<%= config.bin %> jobs --status queued,waiting,running -q | xargs -r <%= config.bin %> wait',
  ];
  static override args = { jobs: optionalJobArgs };
  static override flags = {
    tag: tagsFlag,
    timeout: seconds({ description: 'How long to wait for all of them [default: no limit]' }),
  };

  async run(): Promise<WaitSummary> {
    const { args, flags } = await this.parse(Wait);
    const [connection, reporter] = [await this.connect(flags, true), await this.reporter()];
    const { timeout } = flags;
    const { jobs = [] } = args;
    const ids =
      jobs.length === 0 && flags.tag === undefined
        ? [namedOrLast(undefined, this.config.configDir, connection, reporter)]
        : await jobsToWaitFor(connection, jobs, flags.tag ?? []);
    return waitForJobs(connection, { ids, timeout, output: this.jobsOutput(), reporter });
  }
}
