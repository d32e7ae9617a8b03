import path from 'node:path';
import { fieldWithRole, operationOf } from '../../../src/contract/operations.js';
import { memoryReporter } from './connect.js';
import { stage } from './stage.js';

const operation = operationOf('infer');

/** Stages groups of inputs, with paths relative to the root; removes the temporary archives. */
export async function stageInputs(root: string, groups: string[][], allFiles = false) {
  const files = [
    {
      field: fieldWithRole(operation, 'paths'),
      groups: groups.map((group) => group.map((each) => path.join(root, each))),
    },
  ];
  const reporter = memoryReporter();
  const submission = { operation, app: 'x', fields: {}, options: {}, files, archive: null, allFiles };
  const staged = await stage(submission, reporter, undefined);
  await staged[Symbol.asyncDispose]();
  return { staged, reporter };
}
