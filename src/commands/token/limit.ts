import * as Args from '@oclif/core/args';
import * as Flags from '@oclif/core/flags';
import { type LimitTable, roles, type TokenDocument } from '../../access/index.js';
import {
  allowedLine,
  appsFlag,
  type Edits,
  limitFlags,
  limitLine,
  limitsOf,
  TokenCommand,
} from '../../cli/tokens/index.js';

export default class TokenLimit extends TokenCommand {
  static override summary = 'Set or show the limits of a token, or of all tokens of a role';
  static override description =
    "A token's own limits take precedence over those of its role. Limits that are not named stay as they are; 'none' lifts one. " +
    'An app that a token does not have is as unknown to it as one that the server does not have; its jobs of that app stay. ' +
    'Without a limit, the command shows the current ones. Beyond --max-jobs or --max-gpus jobs wait; beyond --max-upload or --max-kept a ' +
    'submission is refused, with a sentence that says which. A job that alone asks for more than --max-gpus is refused too.';
  static override examples = [
    '<%= config.bin %> token limit ana --max-jobs 4 --max-gpus 1 --tokens tokens.json',
    '<%= config.bin %> token limit ana --apps liver,brain --tokens tokens.json',
    '<%= config.bin %> token limit --role user --max-kept 50GiB --tokens tokens.json',
  ];
  static override args = {
    name: Args.string({ ignoreStdin: true, description: 'Name of a token; or give --role' }),
  };
  static override flags = {
    role: Flags.option({
      options: roles,
      description: 'All tokens of this role that have no limit of their own',
    })(),
    apps: appsFlag(),
    ...limitFlags,
  };

  async run(): Promise<{
    readonly of: string;
    readonly limits: LimitTable;
    readonly apps?: readonly string[];
  }> {
    const { args, flags } = await this.parse(TokenLimit);
    const { name } = args;
    const { role } = flags;
    const limits = limitsOf(flags);
    const limited = (before: TokenDocument, modules: Edits) => {
      const { withApps, withLimits, withRoleLimits, TokenChangeError } = modules;
      if ((name === undefined) === (role === undefined))
        throw new TokenChangeError('Name a token, or a role with --role, and not both');
      if (name === undefined && flags.apps !== undefined)
        throw new TokenChangeError('--apps is for a token, not for a role: name the token');
      if (name === undefined) return withRoleLimits(before, role ?? 'user', limits);
      const after = withLimits(before, name, limits);
      return flags.apps === undefined ? after : withApps(after, name, flags.apps);
    };
    const { after, entry } =
      Object.keys(limits).length === 0 && flags.apps === undefined
        ? await this.preview(flags.tokens, name, limited)
        : await this.edit(flags.tokens, name, limited);
    const of = entry?.name ?? role ?? '';
    const now = (entry ? entry.limits : after.roles[role ?? 'user']) ?? {};
    const apps = entry?.apps;
    await this.print([`${of}: ${(entry ? allowedLine(entry) : limitLine(now)) || 'no limits'}`]);
    return { of, limits: now, ...(apps && { apps }) };
  }
}
