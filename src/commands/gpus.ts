import { ClientCommand } from '../cli/command/index.js';
import { defaultInterval, watch, watchFlags } from '../cli/jobs/index.js';
import { describeMachine, type Machine } from '../cli/server/index.js';
import { readMachine } from '../client/connection/index.js';

export default class Gpus extends ClientCommand {
  static override summary = "Show the server's GPUs and memory";
  static override description = 'Shows the ids that --gpu accepts, and how much memory is in use.';
  static override examples = [
    '<%= config.bin %> gpus',
    '<%= config.bin %> gpus --json',
    '<%= config.bin %> gpus --watch --every 5',
  ];
  static override flags = watchFlags;

  async run(): Promise<Machine | undefined> {
    const { flags } = await this.parse(Gpus);
    this.jsonLines = flags.watch;
    const connection = await this.connect(flags);
    if (flags.watch) {
      const read = () => readMachine(connection);
      // Compared as shown, because the exact figures change all the time.
      const change = (machine: Machine) => describeMachine(machine).join('\n');
      const options = { every: flags.every ?? defaultInterval, json: this.jsonEnabled() };
      await watch(connection, this.io, { read, lines: describeMachine, change }, options);
      return undefined;
    }
    const machine = await readMachine(connection);
    await this.print(describeMachine(machine));
    return machine;
  }
}
