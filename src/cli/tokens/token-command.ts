import type { Interfaces } from '@oclif/core';
import * as Args from '@oclif/core/args';
import * as Flags from '@oclif/core/flags';
import type { LimitTable, TokenDocument, TokenEntry } from '../../access/index.js';
import { UsageError } from '../../client/errors.js';
import { parseSize, readDuration } from '../../contract/index.js';
import { BaseCommand, FlagValueError, pathFlag } from '../command/index.js';

/**
 * Parses a flag that accepts a word in place of a value; the word is read as null.
 * @param takes other accepted values, for the error
 * @param read undefined for an invalid text
 */
const orWord =
  <T>(word: string, takes: string, read: (text: string) => T | undefined) =>
  async (input: string, _: unknown, { name }: { readonly name: string }): Promise<T | null> => {
    if (input.toLowerCase() === word) return null;
    const value = read(input);
    if (value === undefined) throw new FlagValueError(name, `${takes}, or '${word}'`, input);
    return value;
  };

const readCount = (text: string) => (/^\d{1,9}$/.test(text) ? Number(text) : undefined);

const numberFlag = Flags.custom<number | null>({
  helpValue: 'N',
  parse: orWord('none', 'a whole number', readCount),
});

const sizeFlag = Flags.custom<number | null>({
  helpValue: 'SIZE',
  parse: orWord('none', 'a size such as 50GiB', parseSize),
});

/** Flags for the limits of an owner. */
export const limitFlags = {
  'max-jobs': numberFlag({
    description: "Maximum number of jobs at once; further jobs wait; 'none' for no limit",
  }),
  'max-gpus': numberFlag({ description: 'Maximum number of GPUs in use at once; further jobs wait' }),
  'max-kept': sizeFlag({ description: 'Maximum size of what its jobs keep on the server, such as 50GiB' }),
  'max-upload': sizeFlag({ description: 'Maximum size of an upload, such as 2GiB' }),
};

function readApps(text: string): readonly string[] | undefined {
  const ids = text.split(',').map((id) => id.trim());
  return ids.includes('') ? undefined : [...new Set(ids)];
}

/** Flag for the apps that a token may use. */
export const appsFlag = Flags.custom<readonly string[] | null>({
  helpValue: 'APP,APP',
  description:
    "Restrict the token to these apps, by their ids in 'remote-app apps'; 'all' for all of the server's apps",
  parse: orWord('all', 'ids of apps', readApps),
});

type Parsed = { readonly [Name in keyof typeof limitFlags]?: number | null | undefined };

/** The limits given by flags, in the format of the token file. */
export function limitsOf(flags: Parsed): LimitTable {
  const given = {
    max_jobs: flags['max-jobs'],
    max_gpus: flags['max-gpus'],
    max_kept: flags['max-kept'],
    max_upload: flags['max-upload'],
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

/** What a command prints when it makes a token. */
export interface NewToken {
  readonly name: string;
  readonly role: string;
  readonly expires_at: string | null;
  /** The token itself, which is not stored anywhere. */
  readonly token: string;
}

function readExpiry(text: string): string | undefined {
  const seconds = readDuration(text);
  return seconds ? new Date(Date.now() + seconds * 1000).toISOString() : undefined;
}

/** When a token expires: typed as a time from now, read as ISO 8601; null for never. */
export const expiresFlag = Flags.custom<string | null>({
  helpValue: 'TIME',
  parse: orWord('never', 'a time such as 12h or 90d', readExpiry),
});

/** The name of a token, as the argument of a command. */
export const nameArg = Args.string({
  required: true,
  ignoreStdin: true,
  description: 'Name of the token: the person or program that uses it',
});

/** The module that reads and writes the file, imported lazily to keep start-up fast. */
const edits = () => import('../../access/index.js');
export type Edits = Awaited<ReturnType<typeof edits>>;

/** Computes the new content of the file from the old. */
type Change = (before: TokenDocument, modules: Edits) => TokenDocument;

/** The content of the file after a change, and the entry of the token in question. */
interface Changed {
  readonly after: TokenDocument;
  readonly entry: TokenEntry | undefined;
}

const changedTo = (after: TokenDocument, name: string | undefined, { placeOf }: Edits): Changed => ({
  after,
  entry: name === undefined ? undefined : after.tokens[placeOf(after, name)],
});

/** The token file. */
export const tokensFlag = pathFlag({
  required: true,
  helpValue: 'FILE',
  env: 'REMOTE_APP_TOKENS',
  description: "Token file, as given to 'serve --tokens'",
});

/** Runs a function with the module that handles the token file, and turns its errors into usage errors. */
export async function withTokenFile<T>(use: (modules: Edits) => T): Promise<T> {
  const modules = await edits();
  try {
    return use(modules);
  } catch (cause) {
    const isExplained = cause instanceof modules.TokenChangeError || cause instanceof modules.TokenFileError;
    throw isExplained ? new UsageError(cause.message, { cause }) : cause;
  }
}

/** Base of the commands that change the token file. They do not contact a server: a running one notices the change itself. */
export abstract class TokenCommand extends BaseCommand {
  static override baseFlags = { tokens: tokensFlag } satisfies Interfaces.FlagInput;

  /** Changes the file. Returns its new content, and the entry of the named token. */
  protected edit(file: string, name: string | undefined, change: Change): Promise<Changed> {
    return withTokenFile((modules) => {
      let after = modules.noTokens;
      modules.editTokens(file, (before) => {
        after = change(before, modules);
        return after;
      });
      return changedTo(after, name, modules);
    });
  }

  /** Returns the same as `edit`, without changing the file, which must exist. */
  protected preview(file: string, name: string | undefined, change: Change): Promise<Changed> {
    return withTokenFile((modules) => changedTo(change(modules.readTokens(file), modules), name, modules));
  }

  /** Changes the file, and returns one entry as it is afterwards. */
  protected async change(file: string, name: string, change: Change): Promise<TokenEntry> {
    const { entry } = await this.edit(file, name, change);
    if (!entry) throw new Error(`The token ${name} is not there`);
    return entry;
  }

  /**
   * Creates a new token and prints it once, with nothing else on stdout, so that it can be piped.
   * @param change computes the new content of the file, including the token
   */
  protected async giveToken(
    file: string,
    of: string,
    change: (before: TokenDocument, token: string, modules: Edits) => TokenDocument,
  ): Promise<NewToken> {
    let token = '';
    const { name, role, expires_at } = await this.change(file, of, (before, modules) => {
      token = modules.newToken();
      return change(before, token, modules);
    });
    const until = expires_at === null ? '' : ` until ${expires_at}`;
    await this.print([token]);
    const note = `This is the token of '${name}' (${role})${until}. It is not shown again; 'remote-app login' saves it.`;
    if (!this.jsonEnabled()) this.io.writeErr(`${note}\n`);
    return { name, role, expires_at, token };
  }
}
