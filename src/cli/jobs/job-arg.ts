import { Args } from '@oclif/core';
import { checkJobId } from '../../client/connection/index.js';

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

/** The same for a command that can do without. */
export const optionalJobArgs = Args.string(several);
