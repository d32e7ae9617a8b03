import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { fingerprint } from '../../../src/server/executors/local/resident/fingerprint.js';
import { temporary } from '../../support/temporary.js';

test('an app with a directory of more files than a call takes arguments has a fingerprint', async () => {
  await using root = await temporary();
  execFileSync('sh', ['-c', 'mkdir data && cd data && seq 130000 | xargs touch'], { cwd: root.path });
  expect(await fingerprint([root.path])).toMatch(/^[0-9a-f]{64}$/);
});
