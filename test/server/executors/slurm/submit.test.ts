import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { Slurm } from '../../../../src/server/executors/slurm/slurm.js';
import { temporary } from '../../../support/temporary.js';

const options = {
  partition: 'gpu',
  account: null,
  qos: null,
  time: null,
  constraint: null,
  args: ['--mem=1G'],
};

/** Submits a job to a sbatch that notes its words, its environment and its script. */
async function submitted(environment: NodeJS.ProcessEnv, answer = '17;cluster') {
  await using root = await temporary();
  const note = (name: string) => path.join(root.path, name);
  const script = `#!/bin/sh\nfor word; do echo "$word"; done >${note('words')}\nenv >${note('env')}\ncat >${note('script')}\necho '${answer}'\n`;
  writeFileSync(note('sbatch'), script);
  chmodSync(note('sbatch'), 0o755);
  const slurm = new Slurm({
    options,
    environment: { PATH: `${root.path}:${process.env.PATH}`, ...environment },
    programs: { node: '/usr/bin/node', runner: '/opt/main.js', sweep: '/opt/sweep.js' },
    passEnvironment: ['LAB_MODELS'],
    bell: '/data/slurm/bell',
  });
  const id = await slurm.submit(
    { id: '0123456789ab', path: '/data/jobs/0123456789ab' },
    { gpus: 2, cpus: 1 },
  );
  const [words = '', env = '', text = ''] = ['words', 'env', 'script'].map((name) =>
    readFileSync(note(name), 'utf8'),
  );
  return { id, words: words.trim().split('\n'), env: env.trim().split('\n'), text };
}

test('a submission asks for what the admin and the job ask for, and its name and directory find it again', async () => {
  const { id, words, text } = await submitted({});
  expect(id).toBe(17);
  expect(words.slice(0, 5)).toEqual([
    '--mem=1G',
    '--partition=gpu',
    '--nodes=1',
    '--ntasks=1',
    '--gres=gpu:2',
  ]);
  expect(words).toEqual(
    expect.arrayContaining([
      '--no-requeue',
      '--job-name=remote-app-0123456789ab',
      '--chdir=/data/jobs/0123456789ab',
    ]),
  );
  expect(text).not.toContain('0123456789ab');
});

test('Slurm keeps no variable of the server that jobs do not get', async () => {
  const { env } = await submitted({
    HOME: '/home/service',
    AWS_SECRET_ACCESS_KEY: 'hush',
    LAB_MODELS: '/models',
    CUDA_VISIBLE_DEVICES: '7',
    SLURM_CONF: '/etc/slurm/slurm.conf',
    SLURM_JOB_ID: '1',
  });
  const names = env.map((line) => line.split('=')[0]);
  expect(names).toEqual(expect.arrayContaining(['PATH', 'HOME', 'LAB_MODELS', 'SLURM_CONF']));
  expect(names).not.toContain('AWS_SECRET_ACCESS_KEY');
  expect(names).not.toContain('CUDA_VISIBLE_DEVICES');
  expect(names).not.toContain('SLURM_JOB_ID');
});

test('an answer that is no number is not taken for one', async () => {
  await expect(submitted({}, 'Submitted batch job soon')).rejects.toThrow(
    /printed no number of a job: 'Submitted/,
  );
});
