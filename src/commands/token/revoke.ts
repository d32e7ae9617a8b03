import { nameArg, TokenCommand } from '../../cli/tokens/index.js';

export default class TokenRevoke extends TokenCommand {
  static override summary = 'Revoke a token';
  static override description =
    'Servers that use the file refuse the token from the next request on; responses in progress are completed. ' +
    "The name stays reserved, so that nobody else gets the owner's jobs; these continue, and expire as usual. " +
    "'token rotate' gives the same person access again.";
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
