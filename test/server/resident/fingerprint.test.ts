import { execFileSync } from 'node:child_process';
import { linkSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { fingerprint } from '../../../src/server/executors/resident/fingerprint.js';
import { plant, temporary } from '../../support/temporary.js';
import { until } from '../../support/until.mjs';

const program = new URL('../../../dist/server/executors/resident/fingerprint.js', import.meta.url);

test("An app directory with more files than fit in one call's arguments has a fingerprint", async () => {
  await using root = await temporary();
  // Names of one file: it is their number that counts, and 14,000 files would take seconds to make.
  await plant(root.path, { 'data/0': '' });
  const name = (each: number) => path.join(root.path, 'data', `${each}`);
  for (let each = 1; each < 14_000; each += 1) linkSync(name(0), name(each));
  // With a tenth of the usual stack, a call takes a tenth of the 120,000 arguments that it usually takes.
  const script = `import { fingerprint } from '${program}'; console.log(await fingerprint(['${root.path}']))`;
  const words = ['--stack-size=100', '--input-type=module', '--eval', script];
  expect(execFileSync(process.execPath, words, { encoding: 'utf8' })).toMatch(/^[0-9a-f]{64}\n$/);
});

test("A change of a file's content changes the fingerprint even if its size and time stay the same", async () => {
  await using root = await temporary();
  const weights = path.join(root.path, 'weights');
  const write = (content: string) => {
    writeFileSync(weights, content);
    utimesSync(weights, 1e9, 1e9);
  };
  write('old');
  const before = await fingerprint([root.path]);
  expect(await fingerprint([root.path])).toBe(before);
  // The clock of the file system goes on in steps of some milliseconds.
  await until('the change is seen', async () => {
    write('new');
    return (await fingerprint([root.path])) !== before;
  });
});

test('A change below a link or in a hidden file changes the fingerprint, and a change in .git does not', async () => {
  await using root = await temporary();
  const app = path.join(root.path, 'app');
  await plant(root.path, { 'weights/1.pt': 'old', 'data/deep/table': 'old' });
  await plant(app, { '.settings': 'old', '.models/2.pt': 'old', '.git/HEAD': 'old' });
  for (const [target, name] of [
    [app, '../linked'],
    ['../weights/1.pt', '1.pt'],
    ['../data', 'data'],
    ['..', 'circle'],
    ['nowhere', 'broken'],
  ] as const) {
    symlinkSync(target, path.join(app, name));
  }
  const linked = path.join(root.path, 'linked');
  let before = await fingerprint([linked]);
  for (const file of ['weights/1.pt', 'data/deep/table', 'app/.settings', 'app/.models/2.pt']) {
    await plant(root.path, { [file]: 'a new one' });
    const after = await fingerprint([linked]);
    expect.soft(after, file).not.toBe(before);
    before = after;
  }
  await plant(app, { '.git/HEAD': 'a new one' });
  expect(await fingerprint([linked])).toBe(before);
});
