import * as Flags from '@oclif/core/flags';
import { ClientCommand, noZipFlag, outputFlags, waitFlag } from '../cli/command/index.js';
import { fetchJobResult, namedOrLast, optionalJobArg, type ResultSummary } from '../cli/jobs/index.js';

export default class Result extends ClientCommand {
  static override summary = "Download a job's result";
  static override description =
    'Waits for the job to end, saves result.zip and extracts it. With -o -, the zip goes to stdout. Exits with 1 ' +
    'if the job failed or was killed, unless --partial asks for what it left.';
  static override examples = [
    '<%= config.bin %> result 3f9a0c1b2d4e -o ./Output',
    '<%= config.bin %> result 3f9a0c1b2d4e -o - > result.zip',
    '<%= config.bin %> result 3f9a0c1b2d4e --no-wait',
    '<%= config.bin %> result 3f9a0c1b2d4e --partial',
  ];
  static override args = { job: optionalJobArg };
  static override flags = {
    ...outputFlags,
    'no-zip': noZipFlag,
    wait: waitFlag,
    partial: Flags.boolean({
      description: 'Also fetch the output that a failed or killed job left behind',
    }),
    'no-wait': Flags.boolean({
      exclusive: ['wait'],
      description: 'Exit with 3 immediately if the result is not ready yet',
    }),
  };

  async run(): Promise<ResultSummary> {
    const { args, flags } = await this.parse(Result);
    const connection = await this.connect(flags, true);
    const reporter = await this.reporter();
    const id = namedOrLast(args.job, this.config.configDir, connection, reporter);
    return fetchJobResult(
      connection,
      id,
      flags,
      this.io,
      this.jsonEnabled(),
      reporter,
      this.config.configDir,
    );
  }
}
