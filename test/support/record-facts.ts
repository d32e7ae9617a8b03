import { makeRecord, type RecordFacts } from '../../src/client/case/complete-result.js';
import { computationOf } from '../../src/client/case/record.js';
import { operationOf } from '../../src/contract/operations.js';

/** What is known of a job about which the server says nothing. */
export const silentFacts = (submission: Parameters<typeof computationOf>[0]): RecordFacts => ({
  computation: computationOf(submission, null, null),
  app: null,
  job: null,
  jobId: 'x',
  server: { address: 'x', version: null, devices: new Map() },
  clientVersion: '1',
  inputs: [],
  remarks: [],
});

/** The text of a record that says this. */
export function recordText({ inputs = [], ...said }: { inputs?: readonly object[] } & object): string {
  const submission = {
    operation: operationOf('infer'),
    app: 'x',
    fields: {},
    options: {},
    files: [],
    archive: null,
  };
  const record = makeRecord(silentFacts(submission), [], { numbers: {}, unread: [] });
  const recorded = inputs.map((each) => ({ field: 'inputs', group: 0, ...each }));
  return JSON.stringify({ ...record, ...said, inputs: recorded });
}
