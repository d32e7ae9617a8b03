import { Flags } from '@oclif/core';
import { ClientCommand } from '../cli/client-command.js';
import type { DrainState } from '../contract/system.js';

export default class Drain extends ClientCommand {
  static override summary = 'Let the server accept no new jobs, before it is stopped or its machine is';
  static override description =
    'Jobs that are active go on, and so do uploads that have begun; logs and results can be fetched as before. Submissions are ' +
    'answered with 503 and a sentence that says so. A server that is started again accepts jobs. Only an admin may do this.';
  static override examples = [
    '<%= config.bin %> drain --wait && systemctl restart remote-app',
    '<%= config.bin %> drain --undo',
  ];
  static override flags = {
    wait: Flags.boolean({
      description: 'Return only when no job is active',
      exclusive: ['undo'],
    }),
    undo: Flags.boolean({ description: 'Accept new jobs again' }),
  };

  async run(): Promise<DrainState> {
    const { flags } = await this.parse(Drain);
    const connection = await this.connect(flags);
    const { describeDrain, drain } = await import('../cli/drain.js');
    const state = await drain(connection, flags, await this.reporter());
    await this.print([describeDrain(state)]);
    return state;
  }
}
