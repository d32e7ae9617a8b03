import { SubmitCommand, type Submitted, submitFlags, volumeArgs } from '../cli/submit/index.js';
import { operations } from '../contract/index.js';

export default class Evaluate extends SubmitCommand {
  static override summary = operations.evaluate.summary;
  static override description = 'Compares predictions with ground truth and saves the metrics.';
  static override aliases = ['eval'];
  static override examples = [
    '<%= config.bin %> evaluate ./Output --gt ./labels',
    '<%= config.bin %> eval -i prediction.nii.gz --gt label.nii.gz --mask body.nii.gz',
  ];
  static override args = volumeArgs;
  static override flags = submitFlags('evaluate');

  async run(): Promise<Submitted> {
    return this.submit('evaluate', await this.parse(Evaluate));
  }
}
