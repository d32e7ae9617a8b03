import { describe } from 'vitest';
import { sandbox } from '../../support/sandbox.js';
import { executorContract } from './contract.js';
import { fullDiskContract } from './full-disk-contract.js';
import { localSubject } from './local-subject.js';

describe.runIf(sandbox)('with a sandbox', () => {
  const subject = localSubject({ sandbox });
  executorContract('the local executor', subject);
  fullDiskContract('the local executor', subject);
});
