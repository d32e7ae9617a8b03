import { ClientCommand, seconds } from '../cli/command/index.js';
import { health } from '../client/connection/index.js';
import { exitCodes } from '../contract/index.js';

export default class Health extends ClientCommand {
  static override summary = 'Check that the server answers';
  static override description =
    'Also reports anything that keeps jobs waiting, such as a lost GPU or a full disk. Exits with 0 if all is ' +
    'well, 6 if something keeps jobs waiting, 3 if the response takes too long, 4 without a valid token, and 5 ' +
    'if there is no server.';
  static override examples = [
    '<%= config.bin %> health',
    '<%= config.bin %> health --server https://gpu.example.org --timeout 5',
  ];
  static override flags = {
    timeout: seconds({ default: 2, description: 'How long to wait for the response' }),
  };

  async run(): Promise<{ status: string; server: string; faults?: readonly string[] }> {
    const { flags } = await this.parse(Health);
    const connection = await this.connect(flags);
    const { status, faults } = await health(connection, flags.timeout);
    if (faults.length > 0) this.io.exitCode = exitCodes.busy;
    await this.print([`${connection.server} is ${status}`, ...faults]);
    return { status, server: connection.server, ...(faults.length > 0 && { faults }) };
  }
}
