import { TokenCommand } from '../../cli/tokens/token-command.js';
import type { ListedToken } from '../../cli/tokens/token-text.js';

export default class TokenList extends TokenCommand {
  static override summary = 'List the tokens of a file';
  static override description =
    'Shows their names, roles and times, including those of revoked and expired tokens. The file does not hold the tokens themselves.';
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
