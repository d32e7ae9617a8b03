import { ClientCommand } from '../cli/client-command.js';
import { fetchJobResult, type ResultSummary } from '../cli/fetch-result.js';
import { outputFlags, waitFlag } from '../cli/flags.js';
import { jobArg } from '../cli/job-arg.js';

export default class Result extends ClientCommand {
  static override summary = "Download a job's result";
  static override description =
    'Waits for the result, saves result.zip and extracts it. With -o - the zip goes to stdout.';
  static override examples = [
    '<%= config.bin %> result 3f9a0c1b2d4e -o ./Output',
    '<%= config.bin %> result 3f9a0c1b2d4e -o - > result.zip',
  ];
  static override args = { job: jobArg };
  static override flags = { ...outputFlags, wait: waitFlag };

  async run(): Promise<ResultSummary> {
    const { args, flags } = await this.parse(Result);
    const connection = await this.connect(flags);
    return fetchJobResult(connection, args.job, flags, this.jsonEnabled(), await this.reporter());
  }
}
