import { TokenCommand } from '../../cli/tokens/token-command.js';
import type { ListedToken } from '../../cli/tokens/token-text.js';

export default class TokenList extends TokenCommand {
  static override summary = 'List the tokens of a file';
  static override description =
    'Their names, roles and times, those that were revoked or have expired among them. No token can be read from the file.';
  static override examples = [
    '<%= config.bin %> token list --tokens /etc/remote-app/tokens.json',
    "<%= config.bin %> token list --tokens tokens.json --json | jq -r '.tokens[].name'",
  ];

  async run(): Promise<{ readonly tokens: readonly ListedToken[] }> {
    const { flags } = await this.parse(TokenList);
    const { listedToken, tokenTable } = await import('../../cli/tokens/token-text.js');
    const tokens = await this.with(({ readTokens, stateOf }) =>
      readTokens(flags.tokens).tokens.map((entry) => listedToken(entry, stateOf(entry))),
    );
    if (tokens.length === 0) this.note(`No tokens in ${flags.tokens}`);
    else await this.print(tokenTable(tokens).join('\n'));
    return { tokens };
  }
}
