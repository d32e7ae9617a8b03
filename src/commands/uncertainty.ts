import { SubmitCommand, type Submitted, submitFlags, volumeArgs } from '../cli/submit/index.js';
import { operations } from '../contract/index.js';

export default class Uncertainty extends SubmitCommand {
  static override summary = operations.uncertainty.summary;
  static override description = 'Takes the stacks written by an inference with --uncertainty.';
  static override examples = ['<%= config.bin %> uncertainty --gpu 0 "./Output/*_stack.nii.gz"'];
  static override args = volumeArgs;
  static override flags = submitFlags('uncertainty');

  async run(): Promise<Submitted> {
    return this.submit('uncertainty', await this.parse(Uncertainty));
  }
}
