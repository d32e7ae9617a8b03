import * as Flags from '@oclif/core/flags';
import { ClientCommand } from '../cli/command/index.js';
import { describeDrain, describeDrainedGpus, drain } from '../cli/server/index.js';
import type { DrainState } from '../contract/index.js';

export default class Drain extends ClientCommand {
  static override summary = 'Stop accepting new jobs, before stopping the server or its machine';
  static override description =
    'Active jobs and uploads in progress continue, and logs and results stay available. New submissions are ' +
    'refused with status 503. A restarted server accepts jobs again. With --gpu, only these GPUs are drained: ' +
    "running jobs finish, and new jobs get other GPUs until --undo, even across a restart. Requires an admin's " +
    'token.';
  static override examples = [
    '<%= config.bin %> drain --wait && systemctl restart remote-app',
    '<%= config.bin %> drain --undo',
    '<%= config.bin %> drain --gpu 1',
    '<%= config.bin %> drain --gpu 1 --undo',
  ];
  static override flags = {
    gpu: Flags.string({
      description: 'Drain only these GPUs; the server still accepts jobs',
      helpValue: 'ID[,ID]',
    }),
    wait: Flags.boolean({
      description: 'Wait until no job is active',
      exclusive: ['undo', 'gpu'],
    }),
    undo: Flags.boolean({ description: 'Accept new jobs again, or put these GPUs back into use' }),
  };

  async run(): Promise<DrainState> {
    const { flags } = await this.parse(Drain);
    const connection = await this.connect(flags);
    const state = await drain(connection, flags, await this.reporter());
    await this.print([flags.gpu === undefined ? describeDrain(state) : describeDrainedGpus(state)]);
    return state;
  }
}
