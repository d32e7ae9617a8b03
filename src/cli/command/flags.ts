import * as Flags from '@oclif/core/flags';
import { defaultOutput, defaultServer, resultName, tokenVariable } from '../../contract/index.js';
import { expandHome, isOfAnotherHome } from '../../files/index.js';
import { FlagValueError } from './usage-errors.js';

/** Flags shared by several commands, with their environment variables. */

/** Maximum time in seconds: 23 days, close to the longest delay of a timer. */
const maxTime = 2_000_000;

/** A time in seconds, with or without decimals. */
export const seconds = Flags.custom<number, { min?: number }>({
  helpValue: 'SECONDS',
  parse: async (input, _, { name, min }) => {
    const value = Number(input);
    if (input.trim() === '' || !(value > 0 && value >= (min ?? 0) && value <= maxTime)) {
      const from = min === undefined ? 'above 0' : `of at least ${min}`;
      throw new FlagValueError(name, `a number of seconds ${from} and up to ${maxTime}`, input);
    }
    return value;
  },
});

/**
 * Reads the path given to a flag. A shell expands `~/` only at the beginning of a word, so `--flag=~/x` and configuration files
 * need this.
 * @throws FlagValueError for another user's home directory
 */
export function readPath(flag: string, text: string): string {
  if (isOfAnotherHome(text))
    throw new FlagValueError(flag, "a path; only '~/' stands for a home directory", text);
  return expandHome(text);
}

export const pathFlag = Flags.custom<string>({ parse: async (input, _, { name }) => readPath(name, input) });

/** The flags that select the server, for every command that talks to one. */
export const connectionFlags = {
  server: Flags.string({
    helpGroup: 'SERVER',
    helpValue: 'URL',
    env: 'REMOTE_APP_SERVER',
    description:
      'Server address: http://, https://, or ssh://[USER@]HOST[:PORT][/[HOST:]PORT] for a tunnel [default: ' +
      `${defaultServer}]`,
  }),
  token: Flags.string({
    helpGroup: 'SERVER',
    env: tokenVariable,
    helpValue: 'TOKEN',
    noCacheDefault: true,
    description:
      'Token for the server; use --token-file or the environment to keep it out of the process list',
  }),
  'token-file': pathFlag({
    helpGroup: 'SERVER',
    helpValue: 'FILE',
    description: 'File containing the token; takes precedence over --token',
  }),
  profile: Flags.string({
    helpGroup: 'SERVER',
    helpValue: 'NAME',
    env: 'REMOTE_APP_PROFILE',
    description:
      "Profile saved by 'remote-app login'; as a flag, it overrides the server and token from the environment",
  }),
  ca: pathFlag({
    helpGroup: 'SERVER',
    helpValue: 'FILE',
    env: 'REMOTE_APP_CA',
    description: "PEM file with certificates to trust in addition to Node's own",
  }),
  'connect-timeout': seconds({
    helpGroup: 'SERVER',
    default: 60,
    description: 'How long to wait for a connection',
  }),
  'read-timeout': seconds({
    helpGroup: 'SERVER',
    default: 600,
    description: 'How long to wait for the next byte of a response',
  }),
  patience: seconds({
    helpGroup: 'SERVER',
    default: 600,
    description:
      'How long to keep retrying if the server stops responding; at most 20 s if it has never responded',
  }),
};

/** The variable that names the app to run. */
export const appVariable = 'REMOTE_APP_APP';

/** The app to run, for the commands that run one. */
export const appFlag = Flags.string({
  char: 'a',
  helpValue: 'APP',
  env: appVariable,
  description: 'App to run; optional if the server has only one',
});

/** Where a result goes. Existing files are replaced only with `--force`. */
export const outputFlags = {
  output: pathFlag({
    char: 'o',
    helpValue: 'DIR',
    description:
      `New or empty directory for ${resultName} and its extracted files; '-' writes the zip to stdout [default: ` +
      `${defaultOutput}, or ${defaultOutput}-2, ${defaultOutput}-3 and so on if that contains files]`,
  }),
  force: Flags.boolean({
    description: 'Write into a directory that already contains files, replacing files with the same names',
  }),
};

/** Saves only the extracted files of a result, not the zip. */
export const noZipFlag = Flags.boolean({
  description: `Do not keep ${resultName} after extracting it`,
});

const customTag = Flags.custom<string>({
  helpValue: 'TEXT',
  description: 'Only jobs submitted with this --tag',
  parse: async (input, _, { name }) => {
    const tag = input.trim();
    if (tag === '') throw new FlagValueError(name, 'a tag', input);
    return tag;
  },
});

/** Selects jobs by the tag that they were submitted with. */
export const tagFlag = customTag();

/** Selects jobs by several tags. */
export const tagsFlag = customTag({ multiple: true, multipleNonGreedy: true });

/** How long to wait for a result. */
export const waitFlag = seconds({
  default: 600,
  description:
    'How long to wait for the result after the job has ended; the wait for the job itself has no limit',
});

/** How long a kill may take. */
export const killTimeoutFlag = seconds({
  default: 60,
  description: 'How long to wait for a kill to take effect',
});
