import { nameArg, TokenCommand } from '../../cli/tokens/index.js';

export default class TokenRevoke extends TokenCommand {
  static override summary = 'Make a token invalid';
  static override description =
    'A server that uses the file refuses it from the next request on; what it sends already is sent to its end. The name ' +
    "stays taken, so that nobody else gets the jobs of its owner; these go on, and expire in their time. 'token rotate' lets " +
    'the same person in again.';
  static override examples = [
    '<%= config.bin %> token revoke ana --tokens /etc/remote-app/tokens.json',
    '<%= config.bin %> token revoke ci --tokens tokens.json --json',
  ];
  static override args = { name: nameArg };

  async run(): Promise<{ readonly name: string; readonly revoked_at: string | null }> {
    const { args, flags } = await this.parse(TokenRevoke);
    const { name, revoked_at } = await this.change(flags.tokens, args.name, (before, { withoutToken }) =>
      withoutToken(before, args.name),
    );
    await this.print([`The token '${name}' is revoked`]);
    return { name, revoked_at };
  }
}
