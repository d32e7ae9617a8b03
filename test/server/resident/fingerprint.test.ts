import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { temporary } from '../../support/temporary.js';

const program = new URL('../../../dist/server/executors/local/resident/fingerprint.js', import.meta.url);

test('an app with a directory of more files than a call takes arguments has a fingerprint', async () => {
  await using root = await temporary();
  execFileSync('sh', ['-c', 'mkdir data && cd data && seq 14000 | xargs touch'], { cwd: root.path });
  // With a tenth of the usual stack, a call takes a tenth of the 120,000 arguments that it usually takes.
  const script = `import { fingerprint } from '${program}'; console.log(await fingerprint(['${root.path}']))`;
  const words = ['--stack-size=100', '--input-type=module', '--eval', script];
  expect(execFileSync(process.execPath, words, { encoding: 'utf8' })).toMatch(/^[0-9a-f]{64}\n$/);
});
