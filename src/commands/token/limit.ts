import * as Args from '@oclif/core/args';
import * as Flags from '@oclif/core/flags';
import { type LimitTable, roles, type TokenDocument } from '../../access/index.js';
import { type Edits, limitFlags, limitLine, limitsOf, TokenCommand } from '../../cli/tokens/index.js';

export default class TokenLimit extends TokenCommand {
  static override summary = 'Set or show the limits of a token, or of all tokens of a role';
  static override description =
    "A token's own limits take precedence over those of its role. Limits that are not named stay as they are; 'none' lifts one. " +
    'Without a limit, the command shows the current ones. Beyond --max-jobs or --max-gpus jobs wait; beyond --max-upload or --max-kept a ' +
    'submission is refused, with a sentence that says which. A job that alone asks for more than --max-gpus is refused too.';
  static override examples = [
    '<%= config.bin %> token limit ana --max-jobs 4 --max-gpus 1 --tokens tokens.json',
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
    ...limitFlags,
  };

  async run(): Promise<{ readonly of: string; readonly limits: LimitTable }> {
    const { args, flags } = await this.parse(TokenLimit);
    const { name } = args;
    const { role } = flags;
    const limits = limitsOf(flags);
    const limited = (before: TokenDocument, { withLimits, withRoleLimits, TokenChangeError }: Edits) => {
      if ((name === undefined) === (role === undefined))
        throw new TokenChangeError('Name a token, or a role with --role, and not both');
      return name === undefined
        ? withRoleLimits(before, role ?? 'user', limits)
        : withLimits(before, name, limits);
    };
    const { after, entry } =
      Object.keys(limits).length === 0
        ? await this.preview(flags.tokens, name, limited)
        : await this.edit(flags.tokens, name, limited);
    const of = entry?.name ?? role ?? '';
    const now = (entry ? entry.limits : after.roles[role ?? 'user']) ?? {};
    await this.print(`${of}: ${limitLine(now) || 'no limits'}`);
    return { of, limits: now };
  }
}
