import { datasetArgs, SubmitCommand, type Submitted, submitFlags } from '../cli/submit/index.js';
import { operations } from '../contract/index.js';

export default class FineTune extends SubmitCommand {
  static override summary = operations.fine_tune.summary;
  static override description = 'Packs a data set, fine-tunes on it and saves the new checkpoints.';
  static override examples = [
    '<%= config.bin %> fine-tune --gpu 0 --epochs 20 --lr 0.0001 ./dataset',
    '<%= config.bin %> fine-tune -d dataset.zip --models fold_0.pt,fold_1.pt',
  ];
  static override args = datasetArgs;
  static override flags = submitFlags('fine_tune');

  async run(): Promise<Submitted> {
    return this.submit('fine_tune', await this.parse(FineTune));
  }
}
