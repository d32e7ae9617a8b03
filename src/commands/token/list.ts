import { ClientCommand, type ConnectionFlags } from '../../cli/command/index.js';
import {
  type ListedToken,
  listedToken,
  tokensFlag,
  tokenTable,
  withTokenFile,
} from '../../cli/tokens/index.js';
import { Interrupted, TransportError } from '../../client/errors.js';
import type { UsageRow } from '../../contract/index.js';

/** Seconds that the server may take to report the usage. */
const longestAnswer = 10;

export default class TokenList extends ClientCommand {
  static override summary = 'List the tokens of a file';
  static override description =
    'Shows their names, roles and times, including those of revoked and expired tokens. The file does not hold the tokens themselves. ' +
    "With an admin's token it also shows when each last had a job and how much its jobs keep on the server.";
  static override examples = [
    '<%= config.bin %> token list --tokens /etc/remote-app/tokens.json',
    "<%= config.bin %> token list --tokens tokens.json --json | jq -r '.tokens[].name'",
  ];
  static override flags = { tokens: tokensFlag };

  async run(): Promise<{ readonly tokens: readonly ListedToken[] }> {
    const { flags } = await this.parse(TokenList);
    const entries = await withTokenFile(({ readTokens, stateOf }) =>
      readTokens(flags.tokens).tokens.map((entry) => [entry, stateOf(entry)] as const),
    );
    const usage = entries.length > 0 ? await this.#usage(flags) : null;
    const tokens = entries.map(([entry, state]) => listedToken(entry, state, usage));
    if (tokens.length > 0) await this.print(tokenTable(tokens));
    else if (!this.jsonEnabled()) (await this.reporter()).note(`No tokens in ${flags.tokens}`);
    return { tokens };
  }

  /**
   * The usage of all owners; null if the server does not report it. A note says why, unless no server was named and none runs.
   */
  async #usage(flags: ConnectionFlags): Promise<readonly UsageRow[] | null> {
    const { isDefault } = await this.settings(flags);
    try {
      const [{ usageOfAll }, connection] = await Promise.all([
        import('../../client/connection/index.js'),
        this.connect({ ...flags, 'connect-timeout': Math.min(longestAnswer, flags['connect-timeout']) }),
      ]);
      return (await usageOfAll(connection, longestAnswer)).usage;
    } catch (cause) {
      if (cause instanceof Interrupted || !(cause instanceof Error)) throw cause;
      if (!this.jsonEnabled() && !(isDefault && cause instanceof TransportError))
        (await this.reporter()).note(`The last use and the bytes kept are not known: ${cause.message}`);
      return null;
    }
  }
}
