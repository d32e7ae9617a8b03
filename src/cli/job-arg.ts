import { Args } from '@oclif/core';

/** The job that a command is about. */
export const jobArg = Args.string({
  required: true,
  ignoreStdin: true,
  description: "The job's id, as a submission printed it",
});
