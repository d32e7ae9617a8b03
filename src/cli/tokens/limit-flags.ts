import { Flags } from '@oclif/core';
import type { LimitTable } from '../../access/index.js';
import { parseSize } from '../sizes.js';
import { FlagValueError } from '../usage-errors.js';

/** The word for a limit that there is not. */
const none = 'none';

const numberFlag = Flags.custom<number | null>({
  helpValue: 'N',
  parse: async (input, _, { name }) => {
    if (input.toLowerCase() === none) return null;
    if (!/^\d{1,9}$/.test(input)) throw new FlagValueError(name, `a whole number, or '${none}'`, input);
    return Number(input);
  },
});

const sizeFlag = Flags.custom<number | null>({
  helpValue: 'SIZE',
  parse: async (input, _, { name }) => {
    if (input.toLowerCase() === none) return null;
    const bytes = parseSize(input);
    if (bytes === undefined) throw new FlagValueError(name, `a size such as 50GiB, or '${none}'`, input);
    return bytes;
  },
});

/** What an owner may have at most. */
export const limitFlags = {
  'max-jobs': numberFlag({ description: "Most jobs active at once; further jobs wait; 'none' for no limit" }),
  'max-gpus': numberFlag({ description: 'Most GPUs in use at once; further jobs wait' }),
  'max-kept': sizeFlag({ description: 'Most bytes that all its jobs keep on the server, such as 50GiB' }),
  'max-upload': sizeFlag({ description: 'Largest upload, such as 2GiB' }),
};

type Parsed = { readonly [Name in keyof typeof limitFlags]?: number | null | undefined };

/** The limits that were given, as the file has them. */
export function limitsOf(flags: Parsed): LimitTable {
  const given = {
    max_jobs: flags['max-jobs'],
    max_gpus: flags['max-gpus'],
    max_kept: flags['max-kept'],
    max_upload: flags['max-upload'],
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}
