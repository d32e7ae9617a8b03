import { ClientCommand } from '../cli/client-command.js';
import { killTimeoutFlag } from '../cli/flags.js';
import { jobArgs } from '../cli/job-arg.js';
import { type KillSummary, killJobs } from '../cli/kill-jobs.js';

export default class Kill extends ClientCommand {
  static override summary = 'Kill jobs';
  static override description = 'A queued job never starts; a running one is gone when this returns.';
  static override examples = [
    '<%= config.bin %> kill 3f9a0c1b2d4e',
    '<%= config.bin %> kill 3f9a0c1b2d4e 77aa01bc23de',
  ];
  static override args = { jobs: jobArgs };
  static override flags = { timeout: killTimeoutFlag };

  async run(): Promise<KillSummary> {
    const { args, flags } = await this.parse(Kill);
    const summary = await killJobs(await this.connect(flags), args.jobs, flags.timeout);
    const { listKilled } = await import('../cli/job-text.js');
    await this.print(listKilled(summary));
    return summary;
  }
}
