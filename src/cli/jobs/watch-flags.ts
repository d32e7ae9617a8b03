import { Flags } from '@oclif/core';
import { seconds } from '../flags.js';

/** Seconds between two questions of a watch. */
export const defaultInterval = 2;

/** The flags of the commands that can show what they show again and again. */
export const watchFlags = {
  watch: Flags.boolean({
    description:
      'Show it again whenever it changes: in place on a terminal, a block each time elsewhere, one JSON document a line with ' +
      '--json. Ctrl-C ends it with 0',
  }),
  every: seconds({
    min: 0.1,
    dependsOn: ['watch'],
    description: `How often --watch asks the server [default: ${defaultInterval}]`,
  }),
};
