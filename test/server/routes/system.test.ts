import { readFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import { describe, expect, test } from 'vitest';
import { refusal } from '../../support/api.js';
import { Cli } from '../../support/cli.js';
import { FakeNvidiaSmi } from '../../support/nvidia-smi.js';
import { sharedServer, TestServer } from '../../support/server.js';

const gigabyte = 1024 ** 3;

describe('a machine with GPUs', () => {
  const server = sharedServer({ runners: true, gpus: 3 });
  const { api } = server;

  test('A machine with GPUs answers /health with exactly these bytes', async () => {
    const response = await api.fetch('/health');
    expect([response.status, await response.text()]).toEqual([200, '{"status":"ok"}']);
    expect(response.headers.get('content-type')).toMatch(/^application\/json/);
    expect((await api.fetch('/health', { method: 'HEAD' })).status).toBe(200);
  });

  test('A machine with GPUs lists their ids and names', async () => {
    expect(await api.json('/available_devices')).toEqual({
      devices_index: [0, 1, 2],
      devices_name: ['NVIDIA H200', 'NVIDIA H200', 'NVIDIA H200'],
      devices_jobs: [null, null, null],
    });
  });

  test('A machine with GPUs shows its version, and its limits in bytes and seconds', async () => {
    const { version } = JSON.parse(readFileSync('package.json', 'utf8'));
    expect(await api.json('/limits')).toEqual({
      version,
      max_file_size: 2 * gigabyte,
      max_upload_size: 6 * gigabyte,
      max_dataset_size: null,
      max_jobs: null,
      max_gpus: null,
      max_kept: null,
      grace: 120,
      max_keep: 604_800,
      max_run_time: null,
      max_fine_tune_time: null,
      require_deidentified: false,
      uploads: { keep: 86_400 },
      of_server: {
        ...{ max_jobs: 256, max_upload_size: 6 * gigabyte },
        user: { max_jobs: null, max_kept: null },
      },
    });
  });

  test('A machine with GPUs reports its RAM in gigabytes', async () => {
    const ram = await api.json<{ used_gb: number; total_gb: number }>('/ram');
    expect(Object.keys(ram)).toEqual(['used_gb', 'total_gb']);
    expect(ram.total_gb).toBeGreaterThan(0.1);
    expect(ram.total_gb).toBeLessThanOrEqual(totalmem() / gigabyte);
    expect(ram.used_gb).toBeGreaterThan(0);
    expect(ram.used_gb).toBeLessThan(ram.total_gb);
  });

  test.for([
    ['devices=0', 1],
    ['devices=2', 3],
    ['devices=0&devices=1', 1 + 2],
    ['devices=0,2', 1 + 3],
    ['devices=0%2C1&devices=2', 1 + 2 + 3],
    ['devices=1&devices=1', 2],
  ] as const)('A machine with GPUs sums the VRAM of the devices asked for: %s', async ([query, share]) => {
    const count = new Set(query.match(/\d/g)).size;
    expect(await api.json(`/vram?${query}`)).toEqual({
      used_gb: (512 * share) / 1024,
      total_gb: (143_771 * count) / 1024,
    });
  });

  test.for([
    '',
    '?devices=',
    '?devices=x',
    '?devices=0,x',
    '?devices=-1',
    '?devices=1.5',
    '?devices=0,',
    '?other=0',
  ])('A machine with GPUs refuses VRAM for an invalid id: /vram%s', async (query) => {
    expect(await refusal(await api.fetch(`/vram${query}`))).toEqual([
      422,
      expect.stringContaining("'devices'"),
    ]);
  });

  test('A machine with GPUs refuses VRAM for an unknown id', async () => {
    expect(await refusal(await api.fetch('/vram?devices=8,0,7'))).toEqual([
      400,
      'Unknown GPU id(s): 8, 7; this server has: 0, 1, 2',
    ]);
  });
});

describe('a machine with a GPU whose memory nvidia-smi does not report', () => {
  test('A machine with a GPU whose memory nvidia-smi does not report says so, and does not answer 0', async () => {
    using smi = new FakeNvidiaSmi('untold');
    await using server = await TestServer.start({ runners: true, gpus: 2, environment: smi.environment });
    const { api } = server;
    expect(await api.json('/vram?devices=0')).toMatchObject({ total_gb: 143_771 / 1024 });
    for (const query of ['devices=1', 'devices=0,1']) {
      expect(await refusal(await api.fetch(`/vram?${query}`))).toEqual([
        501,
        'nvidia-smi does not report the memory of GPU 1',
      ]);
    }
    await using cli = await Cli.create();
    const { code, stdout } = await cli.run(['gpus', '--server', server.url]);
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^1 +NVIDIA H200 +not told +free$/m)]);
    const { gpus } = JSON.parse((await cli.run(['gpus', '--json', '--server', server.url])).stdout);
    expect(gpus[1]).toEqual({ id: 1, name: 'NVIDIA H200', free: true });
  });
});

describe('a machine where CUDA_VISIBLE_DEVICES hides some GPUs', () => {
  const hidden = sharedServer({
    runners: true,
    gpus: 4,
    environment: { CUDA_VISIBLE_DEVICES: '2,GPU-5e1f0c30' },
  });

  test('A machine where CUDA_VISIBLE_DEVICES hides some GPUs lists the visible ones, by index or UUID, under their own ids', async () => {
    expect(await hidden.api.json('/available_devices')).toMatchObject({ devices_index: [0, 2] });
    expect((await hidden.api.fetch('/vram?devices=1')).status).toBe(400);
  });
});

describe.each([
  ['where nvidia-smi finds no GPU', {}],
  ['without nvidia-smi', { environment: { PATH: '/nowhere' } }],
  ['where CUDA_VISIBLE_DEVICES hides all', { gpus: 2, environment: { CUDA_VISIBLE_DEVICES: '' } }],
] as const)('a machine %s', (machine, options) => {
  const server = sharedServer({ runners: true, ...options });

  test(`A machine ${machine} has empty lists`, async () => {
    const body = await (await server.api.fetch('/available_devices')).text();
    expect(body).toBe('{"devices_index":[],"devices_name":[]}');
    expect((await server.api.fetch('/vram?devices=0')).status).toBe(400);
  });
});

test('The command serve says once which GPUs it found, or that it found none', async () => {
  await using some = await TestServer.start({ runners: true, gpus: 3 });
  expect(some.stderr).toMatch(/^Found 3 GPUs: 0 \(NVIDIA H200\), 1 \(NVIDIA H200\), 2 \(NVIDIA H200\)\.$/m);
  await using none = await TestServer.start({ runners: true });
  expect(none.stderr.match(/No GPU found/g)?.length).toBe(1);
});
