import type { RecordFacts } from '../../src/client/case/complete-result.js';
import { computationOf } from '../../src/client/case/record.js';

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
