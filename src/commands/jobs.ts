import { ClientCommand } from '../cli/client-command.js';
import type { JobAnswer } from '../client/connection/answer-schemas.js';

export default class Jobs extends ClientCommand {
  static override summary = 'List the jobs of the server';
  static override description = 'Newest first. A job leaves the list when its result is removed.';
  static override examples = [
    '<%= config.bin %> jobs',
    "<%= config.bin %> jobs --json | jq -r '.jobs[].job_id'",
  ];

  async run(): Promise<{ readonly jobs: readonly JobAnswer[] }> {
    const { flags } = await this.parse(Jobs);
    const connection = await this.connect(flags);
    const { jobs } = await import('../client/connection/api.js');
    const list = await jobs(connection);
    const { listJobs } = await import('../cli/job-text.js');
    await this.print(listJobs(list));
    return { jobs: list };
  }
}
