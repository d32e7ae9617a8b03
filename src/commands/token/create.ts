import * as Flags from '@oclif/core/flags';
import { roles } from '../../access/index.js';
import {
  appsFlag,
  expiresFlag,
  limitFlags,
  limitsOf,
  type NewToken,
  nameArg,
  TokenCommand,
} from '../../cli/tokens/index.js';

export default class TokenCreate extends TokenCommand {
  static override summary = 'Create a token for a person or a program';
  static override description =
    'Prints the token once, alone on stdout; the file stores only a hash of it, and is created if it does not ' +
    "exist. A user can see and change only their own jobs, an admin everybody's. A running server picks up the " +
    'change by itself.';
  static override examples = [
    '<%= config.bin %> token create ana --tokens /etc/remote-app/tokens.json',
    '<%= config.bin %> token create guest --apps liver,brain --tokens tokens.json',
    '<%= config.bin %> token create ci --tokens tokens.json --expires 90d > token.txt',
  ];
  static override args = { name: nameArg };
  static override flags = {
    role: Flags.option({
      options: roles,
      default: 'user',
      description: "A 'user' sees only their own jobs, an 'admin' everybody's",
    })(),
    apps: appsFlag(),
    ...limitFlags,
    expires: expiresFlag({
      description: 'How long the token is valid, such as 12h or 90d [default: forever]',
    }),
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
        apps: flags.apps ?? null,
      }),
    );
  }
}
