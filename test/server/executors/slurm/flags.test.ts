import { Parser } from '@oclif/core';
import { expect, test } from 'vitest';
import { type ServeFlags, serveFlags } from '../../../../src/cli/serve/flags.js';
import { slurmOptions } from '../../../../src/cli/serve/slurm-options.js';

async function options(...argv: string[]) {
  const { flags } = await Parser.parse(argv, { flags: serveFlags, strict: true });
  return slurmOptions(flags as unknown as ServeFlags);
}

test('serve runs jobs on this machine by default', async () => {
  expect(await options()).toBeNull();
});

test('The flags become options of Slurm', async () => {
  const flags = ['--slurm-partition=gpu', '--slurm-account=lab', '--slurm-qos=low', '--slurm-time=2-0'];
  const given = await options(
    ...['--executor=slurm', ...flags, '--slurm-constraint=a100|h100'],
    ...['--slurm-arg=--mem=16G', '--slurm-arg=--exclusive'],
  );
  expect(given).toEqual({
    ...{ partition: 'gpu', account: 'lab', qos: 'low', time: '2-0', constraint: 'a100|h100' },
    args: ['--mem=16G', '--exclusive'],
  });
});

test.for([
  [['--slurm-partition=x'], /--slurm-partition is for --executor slurm/],
  [['--slurm-arg=--mem=1G'], /--slurm-arg is for --executor slurm/],
  [['--executor=slurm', '--slurm-arg=script.sh'], /one whole word of sbatch/],
  [['--executor=slurm', '--slurm-arg=--mem 16G'], /one whole word of sbatch/],
  [['--executor=slurm', '--slurm-arg=--array=1-9'], /sets --array itself/],
  [['--executor=slurm', '--slurm-arg=--wrap=id'], /sets --wrap itself/],
  [['--executor=slurm', '--slurm-time=soon'], /a time limit such as/],
  [['--executor=slurm', '--slurm-partition='], /a word without spaces/],
  [['--executor=slurm', '--sandbox=bwrap'], /--sandbox bwrap/],
  [['--executor=slurm', '--memory-per-job=1G'], /--slurm-arg=--mem=SIZE/],
  [['--executor=slurm', '--cpu-slots=2'], /--cpu-slots/],
  [['--executor=slurm', '--engine-resident'], /--engine-resident/],
] as const)('%s is refused', async ([argv, sentence]) => {
  await expect(options(...argv)).rejects.toThrow(sentence);
});
