import path from 'node:path';
import { expect, test } from 'vitest';
import { forgetFacts, keepFacts, keepNames, readFacts, readNames } from '../../../src/client/case/index.js';
import { computationOf } from '../../../src/client/case/record.js';
import type { AppAnswer } from '../../../src/client/connection/index.js';
import { operationOf } from '../../../src/contract/operations.js';
import { plant, temporary } from '../../support/temporary.js';

test('What is known of a job that was sent is there for a later command to the same server, until its result has a record', async () => {
  await using directory = await temporary();
  const submission = {
    ...{ operation: operationOf('infer'), app: 'tissue', fields: { tta: '2' }, options: {} },
    ...{ files: [], archive: null },
  };
  const input = { name: 'ct.nii', size: 3, sha256: 'a'.repeat(64), field: 'gt', group: 1 };
  const facts = {
    computation: computationOf(submission, null, { mode: 'names' as const, allowed: ['overlay'] }),
    app: { app: 'tissue', available: false, reason: null } as AppAnswer,
    server: { address: 'http://x', version: '1.2.4', devices: new Map([[2, 'NVIDIA H100']]) },
    clientVersion: '1.2.3',
    inputs: [input],
  };
  keepFacts(directory.path, 'ab', facts);
  keepNames(directory.path, 'ab', { 'case-0001': 'ada' });
  expect(readFacts(directory.path, 'ab', 'http://x')).toEqual(facts);
  expect(readFacts(directory.path, 'ab', 'http://y')).toBeNull();
  expect(readFacts(directory.path, 'cd', 'http://x')).toBeNull();
  forgetFacts(directory.path, 'ab');
  expect([readFacts(directory.path, 'ab', 'http://x'), readNames(directory.path, 'ab')]).toEqual([
    null,
    { 'case-0001': 'ada' },
  ]);
  await plant(directory.path, { 'sent/ef.names.json': '{"case-0001": 7}', 'sent/ef.inputs.json': '{}' });
  expect([readNames(directory.path, 'ef'), readNames(directory.path, 'gh')]).toEqual([{}, {}]);
  expect(readFacts(directory.path, 'ef', 'http://x')).toBeNull();
  // A home that cannot be written fails no submission.
  keepFacts(path.join(directory.path, 'sent/ef.names.json'), 'ab', facts);
});
