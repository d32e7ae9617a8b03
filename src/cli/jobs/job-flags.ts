import * as Args from '@oclif/core/args';
import * as Flags from '@oclif/core/flags';
import { checkJobId } from '../../client/connection/index.js';
import { seconds } from '../command/index.js';

/** The job that a command is about. */
export const jobArg = Args.string({
  required: true,
  ignoreStdin: true,
  parse: async (input) => checkJobId(input),
  description: "The job's id, as a submission printed it",
});

const several = {
  multiple: true,
  ignoreStdin: true,
  parse: async (input: string) => checkJobId(input),
  description: 'Ids of the jobs',
} as const;

/** The jobs that a command is about, one or more. */
export const jobArgs = Args.string({ ...several, required: true });

/** The same for a command that also works without jobs. */
export const optionalJobArgs = Args.string(several);

/** Seconds between two requests of a watch. */
export const defaultInterval = 2;

/** The flags of the commands that can repeat their output with `--watch`. */
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
