import { ClientCommand } from '../cli/client-command.js';
import type { Machine } from '../cli/machine.js';

export default class Gpus extends ClientCommand {
  static override summary = 'Show the GPUs and the memory of the server';
  static override description = 'Ids are what --gpu takes; memory is used of total.';
  static override examples = ['<%= config.bin %> gpus', '<%= config.bin %> gpus --json'];

  async run(): Promise<Machine> {
    const { flags } = await this.parse(Gpus);
    const connection = await this.connect(flags);
    const { readMachine } = await import('../client/connection/machine.js');
    const machine = await readMachine(connection);
    const { describeMachine } = await import('../cli/machine.js');
    await this.print(describeMachine(machine));
    return machine;
  }
}
