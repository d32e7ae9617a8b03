import { Flags } from '@oclif/core';
import { ClientCommand } from '../cli/client-command.js';
import { FlagValueError } from '../cli/usage-errors.js';
import { readDuration } from '../contract/duration.js';
import type { Usage as UsageDocument } from '../contract/usage.js';

/** A time as it is typed, in milliseconds; NaN for what is none. A date begins at midnight here, as times are shown. */
function readSince(input: string): number {
  const seconds = readDuration(input);
  if (seconds !== undefined) return Date.now() - seconds * 1000;
  if (!/^\d{4}-\d\d-\d\d/.test(input)) return Number.NaN;
  // JavaScript reads a date alone as one in UTC.
  return Date.parse(/^[\d-]+$/.test(input) ? `${input}T00:00` : input);
}

export default class Usage extends ClientCommand {
  static override summary = 'Show what jobs have used: GPU hours and bytes, by owner and app';
  static override description =
    'Jobs that have ended count, also those that are removed by now. An admin sees the use of all, a user their own.';
  static override examples = [
    '<%= config.bin %> usage --since 30d',
    '<%= config.bin %> usage --since 2026-11-01 --json',
  ];
  static override flags = {
    since: Flags.custom<string>({
      helpValue: 'TIME',
      description:
        'Jobs that ended since then: a time ago such as 12h or 30d, or a date such as 2026-11-01, from its midnight here',
      parse: async (input, _, { name }) => {
        const time = readSince(input);
        if (Number.isNaN(time)) throw new FlagValueError(name, 'a time such as 30d or 2026-11-01', input);
        return new Date(time).toISOString();
      },
    })(),
  };

  async run(): Promise<UsageDocument> {
    const { flags } = await this.parse(Usage);
    const connection = await this.connect(flags);
    const [{ usage }, { describeUsage }] = await Promise.all([
      import('../client/connection/api.js'),
      import('../cli/usage-text.js'),
    ]);
    const document = await usage(connection, flags.since);
    if (document.usage.length > 0) await this.print(describeUsage(document));
    else if (!this.jsonEnabled()) {
      (await this.reporter()).note(
        `No job has ended on ${connection.server} ${flags.since ? 'since then' : 'yet'}`,
      );
    }
    return document;
  }
}
