import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { minutesOf, Slurm } from '../../../../src/server/executors/slurm/slurm.js';
import { minutesFor } from '../../../../src/server/executors/slurm/submission.js';
import { temporary } from '../../../support/temporary.js';

const options = {
  partition: 'gpu',
  account: 'lab',
  qos: 'low',
  time: null,
  constraint: 'a100|h100',
  args: ['--mem=1G'],
};

/** Submits a job to a fake sbatch that records its arguments, environment and script. */
async function submitted(
  environment: NodeJS.ProcessEnv,
  answer = '17;cluster',
  {
    time = null,
    limit = null,
    args = options.args,
  }: { time?: string | null; limit?: number | null; args?: string[] } = {},
) {
  await using root = await temporary();
  const note = (name: string) => path.join(root.path, name);
  const script = `#!/bin/sh\nfor word; do echo "$word"; done >${note('words')}\nenv >${note('env')}\ncat >${note('script')}\necho '${answer}'\n`;
  writeFileSync(note('sbatch'), script);
  chmodSync(note('sbatch'), 0o755);
  const slurm = new Slurm({
    options: { ...options, time, args },
    environment: { PATH: `${root.path}:${process.env.PATH}`, ...environment },
    passEnvironment: ['LAB_MODELS'],
  });
  const id = await slurm.submit(
    { id: '0123456789ab', path: '/data/jobs/0123456789ab' },
    { gpus: 2, cpus: 4, memory: 2048, minutes: limit },
  );
  const [words = '', env = '', text = ''] = ['words', 'env', 'script'].map((name) =>
    readFileSync(note(name), 'utf8'),
  );
  return { id, words: words.trim().split('\n'), env: env.trim().split('\n'), text };
}

test('A submission has the options of the admin and the job, and can be found by its name and directory', async () => {
  const { id, words, text } = await submitted({});
  expect(id).toBe(17);
  expect(words.slice(0, 9)).toEqual([
    '--gres=gpu:2',
    '--cpus-per-task=4',
    '--mem=1G',
    '--partition=gpu',
    '--account=lab',
    '--qos=low',
    '--constraint=a100|h100',
    '--nodes=1',
    '--ntasks=1',
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

test("An admin's memory option replaces the one for the job, because sbatch accepts only one", async () => {
  const { words } = await submitted({}, undefined, { args: ['--mem-per-gpu=8G'] });
  expect(words.filter((word) => word.startsWith('--mem'))).toEqual(['--mem-per-gpu=8G']);
});

test('Slurm gets no variable of the server that jobs do not get', async () => {
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

test('An answer without a job number is refused', async () => {
  await expect(submitted({}, 'Submitted batch job soon')).rejects.toThrow(
    /printed no number of a job: 'Submitted/,
  );
});

test.for([
  [null, null, []],
  [null, 13, ['--time=13']],
  ['4:00:00', 13, ['--time=4:00:00', '--time=13']],
  // The limit of the admin is never exceeded.
  ['2-0', 2881, ['--time=2-0']],
  ['12', 13, ['--time=12']],
  ['infinite', 13, ['--time=infinite', '--time=13']],
] as const)(
  'The time limit of a job is passed on, within the limit of the admin: %s, %s',
  async ([time, limit, asked]) => {
    const { words } = await submitted({}, undefined, { time, limit });
    expect(words.filter((word) => word.startsWith('--time'))).toEqual(asked);
  },
);

test("Slurm gets the time limit in whole minutes, with extra time for the service to end the job first, within Slurm's own limit", () => {
  const second = 1000;
  expect(minutesFor(null, null)).toBeNull();
  expect(minutesFor(1 * second, null)).toBe(4);
  expect(minutesFor(600 * second, null)).toBe(13);
  expect(minutesFor(601 * second, null)).toBe(14);
  expect(minutesFor(3600 * second, 60)).toBe(60);
});

test.for([
  ['90', 90],
  ['90:30', 90.5],
  ['4:00:00', 240],
  ['2-0', 2880],
  ['1-12:30', 2190],
  ['1-00:00:30', 1440.5],
  ['infinite', Number.POSITIVE_INFINITY],
  ['UNLIMITED', Number.POSITIVE_INFINITY],
  ['', null],
  ['n/a', null],
] as const)("A time limit in Slurm's spelling is read: %j", ([text, minutes]) => {
  expect(minutesOf(text)).toBe(minutes);
});
