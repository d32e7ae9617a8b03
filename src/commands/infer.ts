import { SubmitCommand, type Submitted, showFlag, submitFlags, volumeArgs } from '../cli/submit/index.js';
import { operations } from '../contract/index.js';

export default class Infer extends SubmitCommand {
  static override summary = operations.infer.summary;
  static override description = 'Uploads volumes, follows the log, and saves the result in ./Output.';
  static override examples = [
    '<%= config.bin %> infer --gpu 0 ./scans',
    '<%= config.bin %> infer --app brain -i t1.nii.gz -i t2.nii.gz --tta 4 -o ./Segmentation',
    '<%= config.bin %> infer ./scans --detach',
    '<%= config.bin %> infer --each ./bids -o ./Results',
  ];
  static override args = volumeArgs;
  static override flags = { ...submitFlags('infer'), ...showFlag };

  async run(): Promise<Submitted> {
    return this.submit('infer', await this.parse(Infer));
  }
}
