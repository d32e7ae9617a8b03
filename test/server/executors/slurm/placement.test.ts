import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import {
  allowStart,
  batchScript,
  notedId,
  noteId,
  placementOf,
  prepare,
} from '../../../../src/server/executors/slurm/batch-script.js';
import { temporary } from '../../../support/temporary.js';

/** What the server reads of a placement, once the batch script has run on a node with these variables and GPUs. */
async function placed(variables: Record<string, string>, shown: number) {
  await using root = await temporary();
  const job = path.join(root.path, 'job');
  mkdirSync(job);
  prepare(job);
  const smi = path.join(root.path, 'nvidia-smi');
  const lines = Array.from(
    { length: shown },
    (_, index) => `echo "GPU ${index}: NVIDIA A100 (UUID: GPU-${index})"\n`,
  );
  writeFileSync(smi, `#!/bin/sh\n${lines.join('')}`);
  chmodSync(smi, 0o755);
  // The answer of a server is there already; the runner is a program that ends.
  writeFileSync(path.join(job, 'Slurm/go'), '17\n');
  const { status, stderr } = spawnSync('sh', ['-s'], {
    input: batchScript,
    encoding: 'utf8',
    env: {
      PATH: `${root.path}:${process.env.PATH}`,
      SLURM_JOB_ID: '17',
      SLURMD_NODENAME: 'n1',
      REMOTE_APP_SLURM_DIRECTORY: job,
      REMOTE_APP_SLURM_NODE: 'true',
      ...variables,
    },
  });
  expect([status, stderr]).toEqual([0, '']);
  expect(readFileSync(path.join(job, 'Slurm/placed'), 'utf8')).toContain('17 n1 ');
  const { devices, areNamed } = placementOf(job, 17) ?? {};
  return [devices, areNamed];
}

test.for([
  [
    'the variable of CUDA, where there is one',
    { CUDA_VISIBLE_DEVICES: '3', SLURM_JOB_GPUS: '5' },
    8,
    ['3'],
    true,
  ],
  ['that of AMD', { ROCR_VISIBLE_DEVICES: '2', SLURM_JOB_GPUS: '2' }, 0, ['2'], true],
  [
    'their numbers on the node, where it shows all GPUs',
    { SLURM_JOB_GPUS: '2,5-6' },
    8,
    ['2', '5', '6'],
    false,
  ],
  ['numbers from 0, where a job sees its own GPUs alone', { SLURM_JOB_GPUS: '2,3' }, 2, ['0', '1'], false],
  [
    'those of the step before those of the job',
    { SLURM_STEP_GPUS: '1', SLURM_JOB_GPUS: '0,1' },
    4,
    ['1'],
    false,
  ],
  ['none, where nothing names them', {}, 4, [], false],
] as const)('The GPUs of a placement are %s', async ([, variables, shown, devices, areNamed]) => {
  expect(await placed(variables, shown)).toEqual([devices, areNamed]);
});

test('A job that is submitted again finds nothing of its first start', async () => {
  await using root = await temporary();
  prepare(root.path);
  noteId(root.path, 123_456);
  allowStart(root.path, 123_456);
  prepare(root.path);
  expect(readFileSync(path.join(root.path, 'Slurm/go'), 'utf8')).toBe('');
  noteId(root.path, 17);
  allowStart(root.path, 17);
  expect(notedId(root.path)).toBe(17);
  expect(readFileSync(path.join(root.path, 'Slurm/go'), 'utf8')).toBe('17\n');
});
