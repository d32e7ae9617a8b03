import { expect, test } from 'vitest';
import {
  describeDrain,
  describeForwarding,
  describeMachine,
  describeUsage,
} from '../../src/cli/server/index.js';

const ram = { used_gb: 12.34, total_gb: 64 };

test('GPUs are a table of what the server says of them, with the RAM below', () => {
  const gpus = [
    { id: 0, name: 'H100', used_gb: 1, total_gb: 80, free: true, loaded: [] },
    { id: 1, name: 'H100', free: false, job: { job_id: 'aa01bc23de45', owner: 'ana' }, loaded: ['a', 'b'] },
    { id: 2, name: 'H100', free: false, job: { job_id: 'bb01bc23de45' } },
    { id: 3, name: 'H100', free: false, job: {} },
  ];
  expect(describeMachine({ gpus, ram, cpu_loaded: ['c', 'd'] })).toEqual([
    'ID  GPU   MEMORY          USE                      LOADED',
    '0   H100  1.0 of 80.0 GB  free                     -',
    '1   H100  not told        job aa01bc23de45 of ana  a, b',
    '2   H100  not told        job bb01bc23de45         -',
    '3   H100  not told        taken                    -',
    'RAM: 12.3 of 64.0 GB',
    'Loaded on the CPU: c, d',
  ]);
  expect(describeMachine({ gpus: [{ id: 0, name: 'H100' }], ram })).toEqual([
    'ID  GPU',
    '0   H100',
    'RAM: 12.3 of 64.0 GB',
  ]);
  expect(describeMachine({ gpus: [], ram })).toEqual(['No GPUs', 'RAM: 12.3 of 64.0 GB']);
});

test('usage has a row for each owner and app, a total of several, and the uploads that are kept', () => {
  const row = { app: 'tissue', jobs: 2, gpu_hours: 1.5, bytes_in: 1024, bytes_out: 2048 };
  const full = { ...row, owner: 'ana', bytes_kept: 4096, last_used: null };
  const uploads = [
    { owner: null, uploads: 1, bytes_kept: 1024 },
    { owner: 'ana', uploads: 2, bytes_kept: 2048 },
  ];
  const of = (usage: readonly object[], kept: readonly object[] = []) =>
    describeUsage({ usage, uploads: kept } as unknown as Parameters<typeof describeUsage>[0]);
  expect(of([full, { ...full, owner: null, jobs: 1 }], uploads)).toEqual([
    'OWNER  APP     JOBS  GPU HOURS  UPLOADS  RESULTS  KEPT     LAST USE',
    'ana    tissue  2     1.50       1.0 KiB  2.0 KiB  4.0 KiB  never',
    '-      tissue  1     1.50       1.0 KiB  2.0 KiB  4.0 KiB  never',
    'all            3     3.00       2.0 KiB  4.0 KiB  8.0 KiB',
    '1 upload kept, 1.0 KiB',
    'ana: 2 uploads kept, 2.0 KiB',
  ]);
  expect(of([full])).toHaveLength(2);
  expect(of([], uploads.slice(0, 1))).toEqual(['1 upload kept, 1.0 KiB']);
});

test('A drained server is told by what is still running', () => {
  const said = (active: number) => describeDrain({ draining: true, active });
  expect(said(0)).toBe('No new job is accepted; no job is active.');
  expect(said(1)).toBe('No new job is accepted; 1 active job goes on.');
  expect(said(2)).toBe('No new job is accepted; 2 active jobs go on.');
  expect(describeDrain({ draining: false, active: 2 })).toBe('New jobs are accepted again.');
});

test('A gateway is told by what its clients need', () => {
  expect(describeForwarding({ host: '127.0.0.1', port: 8001, token: 't0ken', server: 'http://a' })).toEqual([
    'host   127.0.0.1',
    'port   8001',
    'token  t0ken',
  ]);
});
