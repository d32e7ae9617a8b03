import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { expect, test } from 'vitest';
import { gpuDevices } from '../../../src/server/sandbox/machine-files.js';
import { lacks } from '../../support/needs.mjs';
import { sandbox } from '../../support/sandbox.js';
import { plant, temporary } from '../../support/temporary.js';

const information = (uuid: string, minor: number) =>
  `Model: \t\t NVIDIA H200\nIRQ:   \t\t 0\nGPU UUID: \t ${uuid}\nDevice Minor: \t ${minor}\n`;

const own = (devices: readonly string[]) => devices.filter((each) => /nvidia\d+$/.test(each));

test('A job on the CPU sees no GPU', () => {
  expect(gpuDevices({ gpus: [], gpuUuids: [] }, [])).toEqual([]);
});

test("A job sees the device files of its own GPUs, by the driver's numbers, and what all GPUs share", async () => {
  await using root = await temporary();
  await plant(root.path, {
    'nvidia/gpus/0000:01:00.0/information': information('GPU-aa', 3),
    'nvidia/gpus/0000:02:00.0/information': information('GPU-bb', 0),
  });
  const devices = gpuDevices({ gpus: [0, 1], gpuUuids: ['GPU-aa', 'GPU-bb'] }, [], root.path);
  expect(own(devices)).toEqual(['/dev/nvidia3', '/dev/nvidia0']);
  expect(devices).toEqual(expect.arrayContaining(['/dev/nvidiactl', '/dev/nvidia-uvm', '/dev/nvidia-caps']));
  expect(own(gpuDevices({ gpus: [1], gpuUuids: ['GPU-bb'] }, [], root.path))).toEqual(['/dev/nvidia0']);
});

test('If the driver does not report all of its numbers, those of nvidia-smi are used', async () => {
  await using root = await temporary();
  await plant(root.path, { 'nvidia/gpus/0000:01:00.0/information': information('GPU-aa', 3) });
  const both = { gpus: [0, 1], gpuUuids: ['GPU-aa', 'GPU-bb'] };
  expect(own(gpuDevices(both, [], root.path))).toEqual(['/dev/nvidia0', '/dev/nvidia1']);
  await plant(root.path, { 'nvidia/gpus/0000:02:00.0/information': 'GPU UUID: \t GPU-bb\n' });
  expect(own(gpuDevices(both, [], root.path))).toEqual(['/dev/nvidia0', '/dev/nvidia1']);
  expect(own(gpuDevices({ gpus: [1], gpuUuids: ['GPU-bb'] }, [], path.join(root.path, 'none')))).toEqual([
    '/dev/nvidia1',
  ]);
});

test('A job on an instance of MIG sees the device files of that instance and of its GPU, and of no other instance', async () => {
  await using root = await temporary();
  const minors = [
    'gpu2/gi1/access 300',
    'gpu2/gi1/ci0/access 301',
    'gpu2/gi11/access 390',
    'gpu2/gi1/ci1/access 302',
  ];
  await plant(root.path, {
    'nvidia/gpus/0000:01:00.0/information': information('GPU-aa', 2),
    'nvidia-caps/mig-minors': `config 1\nmonitor 2\n${minors.join('\n')}\n`,
  });
  const mig = { gpu: 0, gpuUuid: 'GPU-aa', profile: '3g.20gb', gpuInstance: 1, computeInstance: 0 };
  const known = [{ id: 100, uuid: 'MIG-bb', name: '', mig }];
  const devices = gpuDevices({ gpus: [100], gpuUuids: ['MIG-bb'] }, known, root.path);
  expect(own(devices)).toEqual(['/dev/nvidia2']);
  expect(devices.filter((each) => each.includes('caps'))).toEqual([
    '/dev/nvidia-caps/nvidia-cap300',
    '/dev/nvidia-caps/nvidia-cap301',
  ]);
});

test('In WSL2, a job on a GPU sees the one device that the Windows driver provides for all GPUs', () => {
  const one = { gpus: [1], gpuUuids: ['GPU-bb'] };
  expect(gpuDevices(one, [], '/none', (file) => file === '/dev/dxg')).toEqual(['/dev/dxg']);
  expect(gpuDevices({ gpus: [], gpuUuids: [] }, [], '/none', (file) => file === '/dev/dxg')).toEqual([]);
  expect(gpuDevices(one, [], '/none', () => true)).not.toContain('/dev/dxg');
});

test.skipIf(sandbox === null || lacks('root'))('A job sees the driver of WSL2 below /usr', async () => {
  await using root = await temporary();
  const command = ['cat', '/usr/src/driver'];
  const words = sandbox?.wrap(
    {
      directory: { input: root.path, output: root.path, workspace: root.path, temporary: root.path },
      command,
      grant: { gpus: [0], gpuUuids: [], cpuSlots: 0 },
      access: { directories: [], network: false, environment: {} },
      memory: null,
    },
    process.env.PATH ?? '',
  ) as string[];
  // Any directory of /usr that every system has serves as a mount point in a namespace of its own.
  const mount = 'mount -t tmpfs tmpfs /usr/src && echo libcuda >/usr/src/driver && exec "$@"';
  words[words.indexOf('--seccomp') + 1] = '0';
  const all = ['--mount', 'sh', '-c', mount, 'sh', ...words, ...command];
  const filter = Buffer.from(sandbox?.filter ?? '', 'base64');
  const { stdout, stderr } = spawnSync('unshare', all, {
    input: filter,
    stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
    encoding: 'utf8',
    timeout: 30_000,
  });
  expect([stdout, stderr]).toEqual(['libcuda\n', '']);
});
