import { ClientCommand, type ConnectionFlags } from '../../cli/command/index.js';
import {
  type ListedToken,
  listedToken,
  type ToldByServer,
  tokensFlag,
  tokenTable,
  withTokenFile,
} from '../../cli/tokens/index.js';
import { Interrupted, TransportError } from '../../client/errors.js';

/** Maximum time for the server to report the usage, in seconds. */
const longestAnswer = 10;

export default class TokenList extends ClientCommand {
  static override summary = 'List the tokens in a file';
  static override description =
    'Shows names, roles and times, also of revoked and expired tokens. The file does not contain the tokens ' +
    "themselves. Limits inherited from the role are marked '(role)'. With an admin's token, the command also " +
    "shows the server's own limits, marked '(server)', when each token last had a job, and how much its jobs " +
    'keep on the server.';
  static override examples = [
    '<%= config.bin %> token list --tokens /etc/remote-app/tokens.json',
    "<%= config.bin %> token list --tokens tokens.json --json | jq -r '.tokens[].name'",
  ];
  static override flags = { tokens: tokensFlag };

  async run(): Promise<{ readonly tokens: readonly ListedToken[] }> {
    const { flags } = await this.parse(TokenList);
    const { entries, roles } = await withTokenFile(({ readTokens, stateOf }) => {
      const document = readTokens(flags.tokens);
      return {
        entries: document.tokens.map((entry) => [entry, stateOf(entry)] as const),
        roles: document.roles,
      };
    });
    const told = entries.length > 0 ? await this.#ask(flags) : null;
    const tokens = entries.map(([entry, state]) => listedToken(entry, state, roles, told));
    if (tokens.length > 0) await this.print(tokenTable(tokens));
    else if (!this.jsonEnabled()) (await this.reporter()).note(`No tokens in ${flags.tokens}`);
    return { tokens };
  }

  /**
   * Asks for the usage of all owners and the server's limits; null if the server does not report them. A note says why, unless no
   * server was named and none is running.
   */
  async #ask(flags: ConnectionFlags): Promise<ToldByServer | null> {
    const { isDefault } = await this.settings(flags);
    try {
      const [{ limits, usage: usageOf }, connection] = await Promise.all([
        import('../../client/connection/index.js'),
        this.connect({ ...flags, 'connect-timeout': Math.min(longestAnswer, flags['connect-timeout']) }),
      ]);
      const { usage } = await usageOf(connection, { all: '1' }, longestAnswer);
      return { usage, limits: (await limits(connection, longestAnswer)).of_server ?? null };
    } catch (cause) {
      if (cause instanceof Interrupted || !(cause instanceof Error)) throw cause;
      if (!this.jsonEnabled() && !(isDefault && cause instanceof TransportError))
        (await this.reporter()).note(`The last use and the bytes kept are not known: ${cause.message}`);
      return null;
    }
  }
}
