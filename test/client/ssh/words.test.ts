import { expect, test } from 'vitest';
import { readServerUrl, readSshAddress } from '../../../src/client/connection/index.js';
import { explainRefusal } from '../../../src/client/ssh/ssh-process.js';

test.each([
  [
    'administratively prohibited: open failed',
    'unusable',
    'ssh://gpu/node3:9000 does not allow ssh to reach node3:9000 from there (administratively prohibited: open failed); ' +
      'its admin can: AllowTcpForwarding and PermitOpen in sshd_config',
  ],
  [
    'connect failed: Connection refused',
    'unreached',
    'ssh has reached ssh://gpu/node3:9000, but not node3:9000 from there: nothing listens there; ' +
      'another place is given as ssh://HOST/[HOST:]PORT',
  ],
  [
    'connect failed: No route to host',
    'unreached',
    'ssh has reached ssh://gpu/node3:9000, but not node3:9000 from there: connect failed: No route to host; ' +
      'another place is given as ssh://HOST/[HOST:]PORT',
  ],
])('A refusal at the other end of a tunnel is explained: %s', (words, fault, message) => {
  const address = readSshAddress(readServerUrl('ssh://gpu/node3:9000'));
  expect(explainRefusal(address, words)).toMatchObject({ fault, message, exitCode: 5 });
});
