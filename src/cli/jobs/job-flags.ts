import * as Args from '@oclif/core/args';
import * as Flags from '@oclif/core/flags';
import { checkJobId } from '../../client/connection/index.js';
import { seconds } from '../command/index.js';

const one = {
  ignoreStdin: true,
  parse: async (input: string) => checkJobId(input),
  description: "The job's id, as a submission printed it",
} as const;

/** The job that a command is about. */
export const jobArg = Args.string({ ...one, required: true });

/** The same for a command that takes the last job sent from this directory if none is named. */
export const optionalJobArg = Args.string({
  ...one,
  description: `${one.description}; by default the last one sent from this directory`,
});

/** The jobs that a command is about, if they are not selected otherwise. */
export const optionalJobArgs = Args.string({ ...one, multiple: true, description: 'Ids of the jobs' });

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
