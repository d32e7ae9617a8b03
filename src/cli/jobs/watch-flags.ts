import { Flags } from '@oclif/core';
import { seconds } from '../flags.js';

/** Seconds between two questions of a watch. */
export const defaultInterval = 2;

/** The flags of the commands that can show what they show again and again. */
export const watchFlags = {
  watch: Flags.boolean({
    description:
      'Show every change: in place on a terminal, as blocks elsewhere, as one JSON document per line with --json. Ctrl-C ' +
      'ends it, with exit code 0',
  }),
  every: seconds({
    min: 0.1,
    dependsOn: ['watch'],
    description: `How often --watch asks the server [default: ${defaultInterval}]`,
  }),
};
