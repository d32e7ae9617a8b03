import { expect, test, vi } from 'vitest';
import { countLeftFiles } from '../../../src/server/jobs/left-files.js';

/** What a server finds whose files are replaced while it runs, before it has loaded all of them. */
vi.mock('../../../src/pack/count-files.js', () => {
  throw new Error('Cannot find module');
});

test('the files of a failed job are not counted, and its end is not held up, where the counter cannot be loaded', async () => {
  expect(await countLeftFiles('.')).toBeNull();
});
