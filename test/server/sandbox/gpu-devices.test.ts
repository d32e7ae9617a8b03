import path from 'node:path';
import { expect, test } from 'vitest';
import { gpuDevices } from '../../../src/server/sandbox/machine-files.js';
import { plant, temporary } from '../../support/temporary.js';

const information = (uuid: string, minor: number) =>
  `Model: \t\t NVIDIA H200\nIRQ:   \t\t 0\nGPU UUID: \t ${uuid}\nDevice Minor: \t ${minor}\n`;

const own = (devices: readonly string[]) => devices.filter((each) => /nvidia\d+$/.test(each));

test('A job on the CPU sees no GPU', () => {
  expect(gpuDevices({ gpus: [], gpuUuids: [] })).toEqual([]);
});

test("A job sees the device files of its own GPUs, by the driver's numbers, and what all GPUs share", async () => {
  await using root = await temporary();
  await plant(root.path, {
    '0000:01:00.0/information': information('GPU-aa', 3),
    '0000:02:00.0/information': information('GPU-bb', 0),
  });
  const devices = gpuDevices({ gpus: [0, 1], gpuUuids: ['GPU-aa', 'GPU-bb'] }, root.path);
  expect(own(devices)).toEqual(['/dev/nvidia3', '/dev/nvidia0']);
  expect(devices).toEqual(expect.arrayContaining(['/dev/nvidiactl', '/dev/nvidia-uvm', '/dev/nvidia-caps']));
  expect(own(gpuDevices({ gpus: [1], gpuUuids: ['GPU-bb'] }, root.path))).toEqual(['/dev/nvidia0']);
});

test('Where the driver does not tell its numbers, or not all, those of nvidia-smi count', async () => {
  await using root = await temporary();
  await plant(root.path, { '0000:01:00.0/information': information('GPU-aa', 3) });
  const both = { gpus: [0, 1], gpuUuids: ['GPU-aa', 'GPU-bb'] };
  expect(own(gpuDevices(both, root.path))).toEqual(['/dev/nvidia0', '/dev/nvidia1']);
  await plant(root.path, { '0000:02:00.0/information': 'GPU UUID: \t GPU-bb\n' });
  expect(own(gpuDevices(both, root.path))).toEqual(['/dev/nvidia0', '/dev/nvidia1']);
  expect(own(gpuDevices({ gpus: [1], gpuUuids: ['GPU-bb'] }, path.join(root.path, 'none')))).toEqual([
    '/dev/nvidia1',
  ]);
});
