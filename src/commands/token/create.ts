import { Flags } from '@oclif/core';
import { roles } from '../../access/roles.js';
import { limitFlags, limitsOf } from '../../cli/tokens/limit-flags.js';
import { expiresFlag, type NewToken, nameArg, TokenCommand } from '../../cli/tokens/token-command.js';

export default class TokenCreate extends TokenCommand {
  static override summary = 'Make a token for a person or a program';
  static override description =
    'Prints the token once, alone on stdout; the file keeps a hash of it. The file is made where there is none. A user sees ' +
    'and changes their own jobs alone, an admin those of all. A server that uses the file takes the change up by itself.';
  static override examples = [
    '<%= config.bin %> token create ana --tokens /etc/remote-app/tokens.json',
    '<%= config.bin %> token create ci --tokens tokens.json --expires 90d > token.txt',
  ];
  static override args = { name: nameArg };
  static override flags = {
    role: Flags.option({
      options: roles,
      default: 'user',
      description: "'user': their own jobs; 'admin': those of all",
    })(),
    ...limitFlags,
    expires: expiresFlag({ description: "How long it counts, such as 12h or 90d; 'never' without it" }),
  };

  async run(): Promise<NewToken> {
    const { args, flags } = await this.parse(TokenCreate);
    return this.giveToken(flags.tokens, args.name, (before, token, { withToken }) =>
      withToken(before, {
        name: args.name,
        role: flags.role,
        expires: flags.expires ?? null,
        token,
        limits: limitsOf(flags),
      }),
    );
  }
}
