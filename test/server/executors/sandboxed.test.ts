import { describe } from 'vitest';
import { sandbox } from '../../support/sandbox.js';
import { fullDiskContract } from './full-disk-contract.js';
import { localSubject } from './local-subject.js';

describe.runIf(sandbox)('with a sandbox', () => {
  fullDiskContract('the local executor', localSubject({ sandbox }));
});
