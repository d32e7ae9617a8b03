import { describe, expect, test } from 'vitest';
import { refusal } from '../../support/api.js';
import { least, steps } from '../../support/form.js';
import { FakeNvidiaSmi } from '../../support/nvidia-smi.js';
import { apps, TestServer } from '../../support/server.js';
import { until } from '../../support/until.mjs';

/** A server of jobs that have runners. */
const real = { runners: true, apps: [apps.shell], app: 'shell' } as const;

/** One that leaves its jobs to the next one when it stops. */
const keeping = { ...real, flags: ['--on-exit', 'keep'] } as const;

describe('a GPU that has failed when the server starts', () => {
  test('A GPU that has failed when the server starts is left out, gets no jobs, and is named on stderr', async () => {
    using smi = new FakeNvidiaSmi('dead');
    await using server = await TestServer.start({ ...real, gpus: 2, environment: smi.environment });
    const { api } = server;
    const warning = "GPU 1 does not work (nvidia-smi says '[GPU is lost]'): it is left out and gets no jobs.";
    expect(server.stderr.split(warning)).toHaveLength(2);
    expect(await api.json('/available_devices')).toMatchObject({ devices_index: [0] });
    const held = await server.heldJob({ gpu: '0' });
    const { job_id: any } = await api.accepted('infer', least.infer);
    expect((await api.reaches(any, 'waiting')).waiting_for).toBe('a free GPU');
    held.gate.open();
    expect((await api.ended(any)).view).toMatchObject({ status: 'done', assigned_gpus: [0] });
  });

  test('A GPU that has failed when the server starts stays reserved for the job of an earlier server that holds it', async () => {
    using smi = new FakeNvidiaSmi('well');
    await using server = await TestServer.start({ ...keeping, gpus: 2, environment: smi.environment });
    const held = await server.heldJob({ gpu: '1' });
    await server.stop();
    smi.mode = 'dead';
    await server.start();
    expect(await server.api.job(held.id)).toMatchObject({ status: 'running', assigned_gpus: [1] });
    held.gate.open();
    expect((await server.api.ended(held.id)).view).toMatchObject({ status: 'done', assigned_gpus: [1] });
  });
});

describe('an nvidia-smi that fails when the server starts', () => {
  test('An nvidia-smi that fails when the server starts keeps the jobs that want a GPU waiting until it answers', async () => {
    using smi = new FakeNvidiaSmi('fail');
    await using server = await TestServer.start({ ...real, gpus: 2, environment: smi.environment });
    const { api } = server;
    expect(server.stderr).toMatch(/GPUs of this machine are not known: nvidia-smi failed \(exit code 9\)/);
    expect(server.stderr).toMatch(/run again every 2 to 30 seconds/);
    expect(server.stderr).toMatch(/set CUDA_VISIBLE_DEVICES= /);
    expect(server.stderr).not.toContain('No GPU found');

    const { job_id: one } = await api.accepted('infer', { ...least.infer, gpu: '1' });
    const { job_id: any } = await api.accepted('infer', least.infer);
    const { job_id: unknown } = await api.accepted('infer', { ...least.infer, gpu: '7' });
    for (const id of [one, any, unknown]) {
      expect((await api.reaches(id, 'waiting')).waiting_for).toContain('nvidia-smi has not reported');
    }
    // Jobs on the CPU run all the time.
    expect((await api.run('infer', { ...least.infer, cpu: '1' })).view.status).toBe('done');
    for (const path of ['/available_devices', '/vram?devices=0']) {
      const response = await api.fetch(path);
      expect(response.headers.get('retry-after')).toMatch(/^\d+$/);
      expect(await refusal(response)).toEqual([503, expect.stringMatching(/not known: nvidia-smi failed/)]);
    }

    smi.mode = 'well';
    expect((await api.ended(one)).view).toMatchObject({ status: 'done', assigned_gpus: [1] });
    expect((await api.ended(any)).view).toMatchObject({ status: 'done', assigned_gpus: [0] });
    expect((await api.reaches(unknown, 'error')).error).toBe('This server has no GPU 7; it has: 0, 1');
    expect(await api.json('/available_devices')).toMatchObject({ devices_index: [0, 1] });
    expect(server.stderr).toContain('nvidia-smi answers now: GPU 0, 1.');
    expect(server.stderr).not.toMatch(/^\s+at /m);
  });

  test('An nvidia-smi that fails when the server starts does not end jobs of an earlier server, and no GPU is granted twice', async () => {
    using smi = new FakeNvidiaSmi('well');
    await using server = await TestServer.start({ ...keeping, gpus: 2, environment: smi.environment });
    const { api } = server;
    const gate = server.gate();
    const held = { ...least.infer, ...steps(`wait=${gate.path}`) };
    const running = await api.running('infer', { ...held, gpu: '0' }, /^shell /);
    const { job_id: behind } = await api.accepted('infer', { ...held, gpu: '0' });
    await api.reaches(behind, 'waiting');
    await server.stop();
    smi.mode = 'fail';
    await server.start();
    const { job_id: any } = await api.accepted('infer', held);
    await api.reaches(any, 'waiting');
    smi.mode = 'well';
    expect((await api.reaches(any, 'running')).assigned_gpus).toEqual([1]);
    expect((await api.job(running)).status).toBe('running');
    expect((await api.job(behind)).waiting_for).toBe('GPU 0');
    gate.open();
    for (const id of [running, behind, any]) expect((await api.ended(id)).view.status).toBe('done');
  });
});

describe('an nvidia-smi that lists the GPUs and exits with a warning', () => {
  test('An nvidia-smi that lists the GPUs and exits with a warning is trusted: the GPUs are used, and the warning is logged once', async () => {
    using smi = new FakeNvidiaSmi('warned');
    await using server = await TestServer.start({ ...real, gpus: 2, environment: smi.environment });
    const { api } = server;
    expect(server.stderr).toContain('Found 2 GPUs: 0 (NVIDIA H200), 1 (NVIDIA H200).');
    expect((await api.run('infer', { ...least.infer, gpu: '1' })).view).toMatchObject({ status: 'done' });
    expect(await api.json('/vram?devices=0')).toMatchObject({ used_gb: 0.5 });
    expect(server.stderr.match(/infoROM is corrupted/g)).toHaveLength(1);
  });
});

describe('CUDA_VISIBLE_DEVICES without a usable GPU', () => {
  test.for(['MIG-4c5a3f8c-1c9e-5b60-9ee9-3e1c7d2a0b11', '7'])(
    'CUDA_VISIBLE_DEVICES without a usable GPU does not make a server fall back to the CPU: %s',
    async (visible) => {
      const started = TestServer.start({
        runners: true,
        gpus: 2,
        environment: { CUDA_VISIBLE_DEVICES: visible },
      });
      await expect(started).rejects.toThrow(`CUDA_VISIBLE_DEVICES=${visible} names no GPU of this machine`);
    },
  );

  test('CUDA_VISIBLE_DEVICES has no effect on a machine without GPUs', async () => {
    await using server = await TestServer.start({
      runners: true,
      environment: { CUDA_VISIBLE_DEVICES: '7' },
    });
    expect(server.stderr).toContain('nvidia-smi shows none');
  });
});

describe('an nvidia-smi that hangs', () => {
  test('A hanging nvidia-smi does not keep a server from starting or stopping, and is started only once', async () => {
    using smi = new FakeNvidiaSmi('hang');
    await using server = await TestServer.start({ ...real, gpus: 1, environment: smi.environment });
    expect(server.stderr).toContain('not known: nvidia-smi has not answered yet');
    await Promise.all(Array.from({ length: 30 }, () => server.api.fetch('/vram?devices=0')));
    expect(smi.started).toHaveLength(1);
    const before = performance.now();
    expect(await server.stop()).toBe(0);
    expect(performance.now() - before).toBeLessThan(5000);
    await until('it is ended', () => smi.running.length === 0);
  });
});

describe('a start that fails while nvidia-smi hangs', () => {
  test('A start that fails while nvidia-smi hangs prints its error message, and leaves no process and no lock', async () => {
    using smi = new FakeNvidiaSmi('hang');
    await using other = await TestServer.start({
      environment: { CUDA_VISIBLE_DEVICES: '' },
    });
    await using server = new TestServer({
      ownProcess: true,
      environment: smi.environment,
      dataDirectory: `${other.scratch}/another`,
      // An address reserved for documentation: no machine has it.
      flags: ['--host', '203.0.113.1'],
    });
    await expect(server.start()).rejects.toThrow(/serve ended with 2: .*Error: Cannot listen on 203/s);
    expect(await server.ended()).toBe(2);
    await until('it is ended', () => smi.running.length === 0);
    // The lock is free.
    await using next = await TestServer.start({
      environment: { CUDA_VISIBLE_DEVICES: '' },
      dataDirectory: `${other.scratch}/another`,
    });
    expect((await next.api.fetch('/health')).status).toBe(200);
  });
});

describe('the memory of GPUs', () => {
  test('The memory of GPUs is unknown, not zero, if nvidia-smi fails or does not report it', async () => {
    using smi = new FakeNvidiaSmi('well');
    await using server = await TestServer.start({ ...real, gpus: 3, environment: smi.environment });
    const { api } = server;
    const vram = async (query: string) => refusal(await api.fetch(`/vram?devices=${query}`));
    for (const [mode, words] of [
      ['fail', /memory is not known: .*failed \(exit code 9\): 'NVIDIA-SMI has failed/],
      ['crash', /ended by SIGSEGV/],
      ['garbage', /printed no line that lists a GPU/],
      ['silent', /printed no line that lists a GPU/],
      ['flood', /printed more than 1048576 bytes/],
    ] as const) {
      smi.mode = mode;
      const response = await api.fetch('/vram?devices=0');
      expect(response.headers.get('retry-after')).toMatch(/^\d+$/);
      expect(await refusal(response)).toEqual([503, expect.stringMatching(words)]);
    }
    smi.mode = 'lost';
    expect(await vram('0')).toEqual([503, expect.stringContaining('does not list GPU 0 any more')]);
    expect(await vram('1,2')).toEqual([503, expect.stringContaining('cannot report the memory of GPU 1')]);
    smi.mode = 'well';
    expect(await api.json('/vram?devices=0')).toEqual({ used_gb: 0.5, total_gb: 143_771 / 1024 });
    // The list that was found once is kept.
    expect(await api.json('/available_devices')).toMatchObject({ devices_index: [0, 1, 2] });
  });
});
