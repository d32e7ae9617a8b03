import { Parser } from '@oclif/core';
import { readSubmission } from '../../../src/cli/submit/read-submission.js';
import { type ParsedSubmit, submitFlags, volumeArgs } from '../../../src/cli/submit/submit-flags.js';
import type { Submission } from '../../../src/client/submission.js';
import type { OperationName } from '../../../src/contract/operations.js';

/** A command line of this operation as oclif parses it. */
export async function parse(name: OperationName, argv: readonly string[]): Promise<ParsedSubmit> {
  const parsed = await Parser.parse([...argv], { flags: submitFlags(name), args: volumeArgs, strict: true });
  return parsed as unknown as ParsedSubmit;
}

/** From the command line to the request, through oclif's own parser. */
export async function request(name: OperationName, ...argv: string[]): Promise<Omit<Submission, 'app'>> {
  const { flags, args, raw } = await parse(name, argv);
  return readSubmission(name, { flags, paths: args.paths ?? [], words: raw });
}
