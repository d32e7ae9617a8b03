import { describe } from 'vitest';
import { sandbox } from '../../support/sandbox.js';
import { executorContract } from './contract.js';
import { fullDiskContract } from './full-disk-contract.js';
import { localSubject } from './local-subject.js';

describe.runIf(sandbox)('with a sandbox', () => {
  executorContract('the local executor', localSubject({ sandbox }));
  fullDiskContract('the local executor', localSubject({ sandbox }));
});
