import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { UsageLedger } from '../../../src/server/usage/usage-ledger.js';
import { temporary } from '../../support/temporary.js';

test('a line is passed over that is longer than any that the server writes', async () => {
  await using directory = await temporary();
  const used = { time: '2026-01-01T00:00:00.000Z', job_id: '0123456789ab', owner: null };
  const figures = { gpu_seconds: 3600, bytes_in: 1, bytes_out: 2 };
  const lines = ['a', 'b'.repeat(1 << 20), 'c'].map((app) => JSON.stringify({ ...used, app, ...figures }));
  writeFileSync(path.join(directory.path, 'usage'), lines.join('\n'));
  const rows = await new UsageLedger(directory.path, () => {}).summary(0, () => true, []);
  const row = {
    owner: null,
    jobs: 1,
    gpu_hours: 1,
    bytes_in: 1,
    bytes_out: 2,
    bytes_kept: 0,
    last_used: used.time,
  };
  expect(rows).toEqual(['a', 'c'].map((app) => ({ ...row, app })));
});
