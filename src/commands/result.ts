import { Flags } from '@oclif/core';
import { ClientCommand } from '../cli/client-command.js';
import { outputFlags, waitFlag } from '../cli/flags.js';
import { fetchJobResult, type ResultSummary } from '../cli/jobs/fetch-result.js';
import { jobArg } from '../cli/jobs/job-arg.js';

export default class Result extends ClientCommand {
  static override summary = "Download a job's result";
  static override description =
    'Waits for the end of the job, saves result.zip and extracts it. With -o - the zip goes to stdout. Ends with 1 where the job ' +
    'failed or was killed, unless --partial asks for what it left.';
  static override examples = [
    '<%= config.bin %> result 3f9a0c1b2d4e -o ./Output',
    '<%= config.bin %> result 3f9a0c1b2d4e -o - > result.zip',
    '<%= config.bin %> result 3f9a0c1b2d4e --no-wait',
    '<%= config.bin %> result 3f9a0c1b2d4e --partial',
  ];
  static override args = { job: jobArg };
  static override flags = {
    ...outputFlags,
    wait: waitFlag,
    partial: Flags.boolean({
      description: 'Also of a job that failed or was killed: what it left in its output',
    }),
    'no-wait': Flags.boolean({
      exclusive: ['wait'],
      description: 'End with 3 at once where the result is not there yet',
    }),
  };

  async run(): Promise<ResultSummary> {
    const { args, flags } = await this.parse(Result);
    const connection = await this.connect(flags);
    return fetchJobResult(connection, args.job, flags, this.jsonEnabled(), await this.reporter());
  }
}
