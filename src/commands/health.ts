import { ClientCommand, seconds } from '../cli/command/index.js';
import { health } from '../client/connection/index.js';

export default class Health extends ClientCommand {
  static override summary = 'Check that the server answers';
  static override description =
    'Exits with 0 if the server answers, 3 if it takes too long, 4 without a valid token, and 5 if nothing is there.';
  static override examples = [
    '<%= config.bin %> health',
    '<%= config.bin %> health --server https://gpu.example.org --timeout 5',
  ];
  static override flags = {
    timeout: seconds({ default: 2, description: 'Longest wait for the answer' }),
  };

  async run(): Promise<{ status: string; server: string }> {
    const { flags } = await this.parse(Health);
    const connection = await this.connect(flags);
    const { status } = await health(connection, flags.timeout);
    await this.print([`${connection.server} is ${status}`]);
    return { status, server: connection.server };
  }
}
