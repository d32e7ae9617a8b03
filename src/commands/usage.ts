import * as Flags from '@oclif/core/flags';
import { ClientCommand, FlagValueError } from '../cli/command/index.js';
import { describeUsage } from '../cli/server/index.js';
import { health, usage } from '../client/connection/index.js';
import { readDuration, type Usage as UsageDocument } from '../contract/index.js';

/** A point in time, or how many seconds ago it is by the clock of the server. */
type Since = { readonly at: number } | { readonly ago: number };

/** Reads a typed time; null if it is not one. A date begins at local midnight, because times are shown in local time. */
function readSince(input: string): Since | null {
  const ago = readDuration(input);
  if (ago !== undefined) return { ago };
  if (!/^\d{4}-\d\d-\d\d/.test(input)) return null;
  // JavaScript would read a date without a time as UTC.
  const at = Date.parse(/^[\d-]+$/.test(input) ? `${input}T00:00` : input);
  return Number.isNaN(at) ? null : { at };
}

export default class Usage extends ClientCommand {
  static override summary = 'Show what jobs have used, in GPU hours and bytes, by owner and app';
  static override description =
    "Counts finished jobs, including removed ones. Admins see everybody's usage, users only their own.";
  static override examples = [
    '<%= config.bin %> usage --since 30d',
    '<%= config.bin %> usage --since 2026-11-01 --json',
  ];
  static override flags = {
    since: Flags.custom<Since>({
      helpValue: 'TIME',
      description:
        'Count only jobs that ended in this period, such as 12h or 30d, or since a date such as 2026-11-01 (local ' +
        'midnight)',
      parse: async (input, _, { name }) => {
        const since = readSince(input);
        if (since === null) throw new FlagValueError(name, 'a time such as 30d or 2026-11-01', input);
        return since;
      },
    })(),
  };

  async run(): Promise<UsageDocument> {
    const { flags } = await this.parse(Usage);
    const connection = await this.connect(flags);
    const { since } = flags;
    // The answer reveals the server's clock.
    if (since && 'ago' in since) await health(connection, connection.readTimeout);
    const from = since && ('ago' in since ? connection.now() - since.ago * 1000 : since.at);
    const document = await usage(
      connection,
      from === undefined ? {} : { since: new Date(from).toISOString() },
    );
    const lines = describeUsage(document);
    if (lines.length > 0) await this.print(lines);
    else if (!this.jsonEnabled()) {
      (await this.reporter()).note(
        `No job has ended on ${connection.server} ${since ? 'since then' : 'yet'}`,
      );
    }
    return document;
  }
}
