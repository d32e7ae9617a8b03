import { expiresFlag, type NewToken, nameArg, TokenCommand } from '../../cli/tokens/token-command.js';

export default class TokenRotate extends TokenCommand {
  static override summary = 'Replace a token by a new one of the same name';
  static override description =
    'The old one is refused from then on. The new one has the same role and the same jobs; it is printed once, alone on ' +
    'stdout. A token that was revoked is given a new one in the same way; one whose time is over needs --expires as well.';
  static override examples = [
    '<%= config.bin %> token rotate ana --tokens /etc/remote-app/tokens.json',
    '<%= config.bin %> token rotate ana --tokens tokens.json --expires 90d',
  ];
  static override args = { name: nameArg };
  static override flags = {
    expires: expiresFlag({
      description:
        "How long the new one counts, such as 12h or 90d, or 'never'; without it as the old one did",
    }),
  };

  async run(): Promise<NewToken> {
    const { args, flags } = await this.parse(TokenRotate);
    return this.giveToken(flags.tokens, args.name, (before, token, { withNewSecret }) =>
      withNewSecret(before, args.name, token, flags.expires),
    );
  }
}
