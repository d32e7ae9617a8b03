import { Flags } from '@oclif/core';
import { defaultOutput, resultName } from '../contract/archives.js';
import { defaultServer, tokenVariable } from '../contract/defaults.js';
import { FlagValueError } from './usage-errors.js';

/** Flags that several commands share, each once, each with its environment variable (interface.md, Clients). */

/** Seconds: 23 days, which a timer can wait. */
const longestTime = 2_000_000;

/** A time in seconds, with or without decimals. */
export const seconds = Flags.custom<number, { min?: number }>({
  helpValue: 'SECONDS',
  parse: async (input, _, { name, min }) => {
    const value = Number(input);
    if (input.trim() === '' || !(value > 0 && value >= (min ?? 0) && value <= longestTime)) {
      const from = min === undefined ? 'above 0' : `of at least ${min}`;
      throw new FlagValueError(name, `a number of seconds ${from} and up to ${longestTime}`, input);
    }
    return value;
  },
});

/** How to reach the server: every command that talks to one takes these. */
export const connectionFlags = {
  server: Flags.string({
    helpGroup: 'SERVER',
    helpValue: 'URL',
    env: 'REMOTE_APP_SERVER',
    description: `Address of the server: http://, https://, or ssh://[USER@]HOST[:PORT][/[HOST:]PORT] for a tunnel; ${defaultServer} where nothing says otherwise`,
  }),
  token: Flags.string({
    helpGroup: 'SERVER',
    env: tokenVariable,
    helpValue: 'TOKEN',
    noCacheDefault: true,
    description: 'Token; a file or the environment keeps it out of the process list',
  }),
  'token-file': Flags.string({
    helpGroup: 'SERVER',
    helpValue: 'FILE',
    description: 'File that holds the token; it wins over --token',
  }),
  profile: Flags.string({
    helpGroup: 'SERVER',
    helpValue: 'NAME',
    env: 'REMOTE_APP_PROFILE',
    description:
      "Profile that 'remote-app login' wrote; typed, it takes the place of the environment's server and token",
  }),
  ca: Flags.string({
    helpGroup: 'SERVER',
    helpValue: 'FILE',
    env: 'REMOTE_APP_CA',
    description: 'Certificates in PEM form that are trusted beside those that Node knows',
  }),
  'connect-timeout': seconds({
    helpGroup: 'SERVER',
    default: 60,
    description: 'Longest wait for a connection',
  }),
  'read-timeout': seconds({
    helpGroup: 'SERVER',
    default: 600,
    description: 'Longest silence of a server that owes an answer',
  }),
  patience: seconds({
    helpGroup: 'SERVER',
    default: 600,
    description: 'How long a server that has answered, and then is gone, is tried again',
  }),
};

/** The app to run, for the commands that run one. */
export const appFlag = Flags.string({
  char: 'a',
  helpValue: 'APP',
  env: 'REMOTE_APP_APP',
  description: 'App to run; where the server has only one, that one',
});

/** Where a result goes. Nothing that is there is replaced unless this is asked for. */
export const outputFlags = {
  output: Flags.string({
    char: 'o',
    helpValue: 'DIR',
    description:
      `Directory for ${resultName} and what is in it, '-' for the zip on stdout. It must be empty or new. ` +
      `[default: ${defaultOutput}; if that has files, ${defaultOutput}-2, ${defaultOutput}-3 and so on]`,
  }),
  force: Flags.boolean({
    description: 'Write into a directory that has files; those of the same names are replaced',
  }),
};

/** How long a result is waited for. */
export const waitFlag = seconds({
  default: 600,
  description:
    'Longest wait for the result, counted from the end of the job; a job that has not ended is waited for as long as it takes',
});

/** How long a kill may take. */
export const killTimeoutFlag = seconds({
  default: 60,
  description: 'Longest wait for a kill to take effect',
});
