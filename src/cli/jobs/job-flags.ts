import * as Args from '@oclif/core/args';
import * as Flags from '@oclif/core/flags';
import { checkJobId } from '../../client/connection/index.js';
import { seconds } from '../command/index.js';

const one = {
  ignoreStdin: true,
  parse: async (input: string) => checkJobId(input),
  description: 'Job id, as printed on submission',
} as const;

/** The job that a command acts on. */
export const jobArg = Args.string({ ...one, required: true });

/** An optional job: without one, the command uses the last job sent from this directory. */
export const optionalJobArg = Args.string({
  ...one,
  description: `${one.description} [default: the last job sent from this directory]`,
});

/** The jobs that a command acts on, unless other flags select them. */
export const optionalJobArgs = Args.string({ ...one, multiple: true, description: 'Job ids' });

/** Seconds between two requests with `--watch`. */
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
