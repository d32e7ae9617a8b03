import { SubmitCommand, type Submitted, submitFlags, volumeArgs } from '../cli/submit/index.js';
import { operations } from '../contract/index.js';

export default class Pipeline extends SubmitCommand {
  static override summary = operations.pipeline.summary;
  static override description = 'Runs inference, evaluation and uncertainty estimation in one job.';
  static override examples = [
    '<%= config.bin %> pipeline --gpu 0 ./scans --gt ./labels',
    '<%= config.bin %> pipeline ./scans --gt ./labels --no-uncertainty -o ./Report',
  ];
  static override args = volumeArgs;
  static override flags = submitFlags('pipeline');

  async run(): Promise<Submitted> {
    return this.submit('pipeline', await this.parse(Pipeline));
  }
}
