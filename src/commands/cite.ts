import { existsSync } from 'node:fs';
import * as Args from '@oclif/core/args';
import { ClientCommand } from '../cli/command/index.js';
import { type CiteDocument, loadCite, namedOrLast } from '../cli/jobs/index.js';
import { checkJobId } from '../client/connection/index.js';

export default class Cite extends ClientCommand {
  static override summary = 'Print what to cite for a result';
  static override description =
    "Prints the app's references, the versions of everything that ran, and a sentence for a methods section. For " +
    'a result on this machine, everything comes from its record, so no server is needed.';
  static override examples = [
    '<%= config.bin %> cite 3f9a0c1b2d4e',
    '<%= config.bin %> cite ./Output',
    '<%= config.bin %> cite ./Results --json',
  ];
  static override args = {
    result: Args.string({
      ignoreStdin: true,
      description:
        'A record, a directory of results, or a job id [default: the last job sent from this directory]',
    }),
  };

  async run(): Promise<CiteDocument> {
    const { args, flags } = await this.parse(Cite);
    const { citedAt, citedJob, citeLines } = await loadCite();
    const ofJob = async (named: string | undefined) => {
      const connection = await this.connect(flags);
      const reporter = await this.reporter();
      const id = namedOrLast(named && checkJobId(named), this.config.configDir, connection, reporter);
      return citedJob(connection, id, this.config, reporter);
    };
    const isHere = args.result !== undefined && existsSync(args.result);
    const document = isHere ? citedAt(args.result as string) : await ofJob(args.result);
    await this.print(citeLines(document));
    return document;
  }
}
