import type { Interfaces } from '@oclif/core';
import * as Flags from '@oclif/core/flags';
import { wholeNumber } from '../command/index.js';

/** The flags of the operations that can run one job for each case. */
export const eachFlags = {
  each: Flags.boolean({
    helpGroup: 'EACH',
    exclusive: ['detach'],
    description:
      'Run one job for each volume, or for each one with the files of the other groups that are paired with it; each result goes ' +
      'to --output under the path of its input. What is done already is not sent again: the same command goes on where it ended',
  }),
  'at-most': wholeNumber({
    helpGroup: 'EACH',
    helpValue: 'N',
    min: 1,
    max: 256,
    dependsOn: ['each'],
    description: 'Most jobs at once, fewer where the server allows fewer [default: 4]',
  }),
  'fail-fast': Flags.boolean({
    helpGroup: 'EACH',
    dependsOn: ['each'],
    description: 'End at the first case that fails; otherwise the others go on',
  }),
  'keep-version': Flags.boolean({
    helpGroup: 'EACH',
    dependsOn: ['each'],
    exclusive: ['force'],
    description:
      'After an upgrade of the app, keep the results of the earlier version and compute only the other cases; --force computes all again',
  }),
  'skip-incomplete': Flags.boolean({
    helpGroup: 'EACH',
    dependsOn: ['each'],
    description: 'Leave out the cases that do not have a file in each group; otherwise nothing is sent',
  }),
  layout: Flags.option({ options: ['cases', 'bids'] as const })({
    helpGroup: 'EACH',
    dependsOn: ['each'],
    description:
      'How results lie in --output: in a directory for each case, or as derivatives of BIDS, whose data set --output then is ' +
      '[default: cases]',
  }),
  watch: Flags.boolean({
    helpGroup: 'EACH',
    dependsOn: ['each', 'json'],
    description:
      'With --json, print every change of a case while the command runs, as one JSON document per line; the last line is about all cases',
  }),
};

/** The parsed flags of `eachFlags`. */
export type EachFlags = Interfaces.InferredFlags<typeof eachFlags>;
