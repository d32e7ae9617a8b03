import { type EndedCase, makeRecord } from '../../src/client/case/complete-result.js';
import { computationOf } from '../../src/client/case/computation.js';
import type { CaseRecord, RecordedInput } from '../../src/client/case/record.js';
import { operationOf } from '../../src/contract/operations.js';

const submission = {
  ...{ operation: operationOf('infer'), app: 'x', fields: {}, options: {} },
  ...{ files: [], archive: null },
};

/** What is known of a job about which the server says nothing. */
export const silentCase = (inputs: RecordedInput[] = []): EndedCase => ({
  sent: { ...computationOf(submission, null, null, '1'), inputs, inputs_remarks: [] },
  job: null,
  server: { address: 'x', version: null, devices: new Map() },
});

/** The record of such a job, which says this as well. */
export const silentRecord = (said: Partial<CaseRecord> = {}): CaseRecord => ({
  ...makeRecord(silentCase(), 'x', null),
  ...said,
});

type Recorded = Omit<Partial<CaseRecord>, 'inputs'> & { readonly inputs?: readonly object[] };

/** The text of a record that says this. */
export const recordText = ({ inputs = [], ...said }: Recorded): string =>
  JSON.stringify({
    ...silentRecord(said),
    inputs: inputs.map((each) => ({ field: 'inputs', group: 0, ...each })),
  });
