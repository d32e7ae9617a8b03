import { Flags } from '@oclif/core';
import { repeatable } from './repeatable.js';

/** The flags of `serve` that say where jobs run. */
export const slurmFlags = {
  executor: Flags.option({
    options: ['local', 'slurm'] as const,
    default: 'local',
    summary: 'Where jobs run: on this machine, or on the nodes of the Slurm cluster that it belongs to',
  })(),
  'slurm-partition': Flags.string({
    helpValue: 'NAME',
    summary: 'Partition of the jobs; by default that of the cluster',
  }),
  'slurm-account': Flags.string({ helpValue: 'NAME', summary: 'Account that the jobs are charged to' }),
  'slurm-qos': Flags.string({ helpValue: 'NAME', summary: 'Quality of service of the jobs' }),
  'slurm-time': Flags.string({
    helpValue: 'TIME',
    summary: 'Time limit of the jobs in Slurm, as sbatch spells it, such as 4:00:00 or 2-0',
  }),
  'slurm-constraint': Flags.string({
    helpValue: 'FEATURES',
    summary: 'Features that a node needs to run the jobs',
  }),
  'slurm-arg': repeatable({
    helpValue: 'WORD',
    summary: 'Further word for sbatch, whole, such as --slurm-arg=--mem=16G; repeatable',
  }),
};
