import * as Args from '@oclif/core/args';
import * as Flags from '@oclif/core/flags';
import { checkJobId } from '../../client/connection/index.js';
import { seconds } from '../command/index.js';

const one = {
  ignoreStdin: true,
  parse: async (input: string) => checkJobId(input),
  description: 'Job id, as printed on submission',
} as const;

/** The job that a command is about. */
export const jobArg = Args.string({ ...one, required: true });

/** The same for a command that takes the last job sent from this directory if none is named. */
export const optionalJobArg = Args.string({
  ...one,
  description: `${one.description} [default: the last job sent from this directory]`,
});

/** The jobs that a command is about, if they are not selected otherwise. */
export const optionalJobArgs = Args.string({ ...one, multiple: true, description: 'Job ids' });

/** Seconds between two requests of a watch. */
export const defaultInterval = 2;

/** The flags of the commands that can repeat their output with `--watch`. */
export const watchFlags = {
  watch: Flags.boolean({
    description:
      'Keep showing changes until Ctrl-C (exit code 0): in place on a terminal, as blocks otherwise, or with ' +
      '--json as one document per line',
  }),
  every: seconds({
    min: 0.1,
    dependsOn: ['watch'],
    description: `How often --watch asks the server [default: ${defaultInterval}]`,
  }),
};
