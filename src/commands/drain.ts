import * as Flags from '@oclif/core/flags';
import { ClientCommand } from '../cli/command/index.js';
import { describeDrain, describeDrainedGpus, drain } from '../cli/server/index.js';
import type { DrainState } from '../contract/index.js';

export default class Drain extends ClientCommand {
  static override summary = 'Stop accepting new jobs, before the server or its machine is stopped';
  static override description =
    'Active jobs and uploads that have begun go on, and logs and results can still be fetched. New submissions are refused with ' +
    'status 503. A server that is started again accepts jobs. With --gpu, only these GPUs are drained: running jobs finish, and ' +
    'new jobs get other GPUs until --undo, even after a restart. Only an admin may do this.';
  static override examples = [
    '<%= config.bin %> drain --wait && systemctl restart remote-app',
    '<%= config.bin %> drain --undo',
    '<%= config.bin %> drain --gpu 1',
    '<%= config.bin %> drain --gpu 1 --undo',
  ];
  static override flags = {
    gpu: Flags.string({
      description: 'Take only these GPUs out; the server accepts jobs',
      helpValue: 'ID[,ID]',
    }),
    wait: Flags.boolean({
      description: 'Return only once no job is active',
      exclusive: ['undo', 'gpu'],
    }),
    undo: Flags.boolean({ description: 'Accept new jobs again, or give jobs these GPUs again' }),
  };

  async run(): Promise<DrainState> {
    const { flags } = await this.parse(Drain);
    const connection = await this.connect(flags);
    const state = await drain(connection, flags, await this.reporter());
    await this.print([flags.gpu === undefined ? describeDrain(state) : describeDrainedGpus(state)]);
    return state;
  }
}
