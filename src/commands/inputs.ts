import { BaseCommand } from '../cli/command/index.js';
import { type InputsDocument, loadShowInputs, sendingFlags, volumeArgs } from '../cli/submit/index.js';

export default class Inputs extends BaseCommand {
  static override summary = 'Show what would be sent from files and directories';
  static override description =
    'Reads the files as infer does, and lists the volumes with their names, formats and DICOM series, and what ' +
    'would be left out. Needs no server.';
  static override examples = [
    '<%= config.bin %> inputs ./export',
    "<%= config.bin %> inputs ./export --series 'T1*'",
    '<%= config.bin %> inputs ./bids --json',
  ];
  static override args = volumeArgs;
  static override flags = sendingFlags;

  async run(): Promise<InputsDocument> {
    const { args, flags } = await this.parse(Inputs);
    const { showInputs } = await loadShowInputs();
    return showInputs(args.paths ?? [], flags, this.io, this.jsonEnabled());
  }
}
