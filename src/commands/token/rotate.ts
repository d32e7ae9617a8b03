import { expiresFlag, type NewToken, nameArg, TokenCommand } from '../../cli/tokens/index.js';

export default class TokenRotate extends TokenCommand {
  static override summary = 'Replace a token with a new one of the same name';
  static override description =
    'The old token is refused from then on. The new one has the same role and jobs, and is printed once, alone ' +
    'on stdout. A revoked token can be replaced in the same way; an expired one also needs --expires.';
  static override examples = [
    '<%= config.bin %> token rotate ana --tokens /etc/remote-app/tokens.json',
    '<%= config.bin %> token rotate ana --tokens tokens.json --expires 90d',
  ];
  static override args = { name: nameArg };
  static override flags = {
    expires: expiresFlag({
      description:
        "How long the new token is valid, such as 12h or 90d, or 'never' [default: as long as the old one]",
    }),
  };

  async run(): Promise<NewToken> {
    const { args, flags } = await this.parse(TokenRotate);
    return this.giveToken(flags.tokens, args.name, (before, token, { withNewSecret }) =>
      withNewSecret(before, args.name, token, flags.expires),
    );
  }
}
