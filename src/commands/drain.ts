import * as Flags from '@oclif/core/flags';
import { ClientCommand } from '../cli/command/index.js';
import { describeDrain, drain } from '../cli/server/index.js';
import type { DrainState } from '../contract/index.js';

export default class Drain extends ClientCommand {
  static override summary = 'Stop accepting new jobs, before the server or its machine is stopped';
  static override description =
    'Active jobs and uploads that have begun go on, and logs and results can still be fetched. New submissions are refused with ' +
    'status 503. A server that is started again accepts jobs. Only an admin may do this.';
  static override examples = [
    '<%= config.bin %> drain --wait && systemctl restart remote-app',
    '<%= config.bin %> drain --undo',
  ];
  static override flags = {
    wait: Flags.boolean({
      description: 'Return only once no job is active',
      exclusive: ['undo'],
    }),
    undo: Flags.boolean({ description: 'Accept new jobs again' }),
  };

  async run(): Promise<DrainState> {
    const { flags } = await this.parse(Drain);
    const connection = await this.connect(flags);
    const state = await drain(connection, flags, await this.reporter());
    await this.print([describeDrain(state)]);
    return state;
  }
}
