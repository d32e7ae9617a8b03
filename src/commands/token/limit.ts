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
  static override summary = 'Set or show the limits of a token or a role';
  static override description =
    "A token's own limits take precedence over those of its role. Limits that are not given stay unchanged; " +
    "'none' removes one. Without any limit, shows the current ones. Jobs beyond --max-jobs or --max-gpus wait; a " +
    'submission beyond --max-upload or --max-kept is refused with a message that names the limit, and so is a ' +
    'job that asks for more than --max-gpus by itself. To a token, an app that it may not use looks like one ' +
    'that does not exist; its existing jobs of that app remain.';
  static override examples = [
    '<%= config.bin %> token limit ana --max-jobs 4 --max-gpus 1 --tokens tokens.json',
    '<%= config.bin %> token limit ana --apps liver,brain --tokens tokens.json',
    '<%= config.bin %> token limit --role user --max-kept 50GiB --tokens tokens.json',
  ];
  static override args = {
    name: Args.string({ ignoreStdin: true, description: 'Name of a token; give --role instead for a role' }),
  };
  static override flags = {
    role: Flags.option({
      options: roles,
      description: 'Apply to all tokens of this role that have no limit of their own',
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
