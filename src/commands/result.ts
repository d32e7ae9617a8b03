import { ClientCommand } from '../cli/client-command.js';
import { fetchResult, type ResultSummary } from '../cli/fetch-result.js';
import { outputFlag, waitFlag } from '../cli/flags.js';
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
  static override flags = { output: outputFlag, wait: waitFlag };

  async run(): Promise<ResultSummary> {
    const { args, flags } = await this.parse(Result);
    const options = { output: flags.output, wait: flags.wait, json: this.jsonEnabled() };
    return fetchResult(await this.connect(flags), args.job, options, await this.reporter());
  }
}
