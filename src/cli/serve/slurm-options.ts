import { UsageError } from '../../client/errors.js';
import { quoteName } from '../../contract/index.js';
import type { ServerSettings } from '../../server/settings.js';
import { FlagValueError } from '../command/index.js';
import type { ServeFlags } from './flags.js';

/** A time limit as sbatch takes it: minutes, hours:minutes:seconds, days-hours and the like. */
const timeLimit = /^(?:\d+-\d+(?::\d+){0,2}|\d+(?::\d+){0,2}|infinite|unlimited)$/i;

/** Options that the service sets itself for each submission, or that would change how a submission works. */
const reserved = [
  ...['array', 'chdir', 'clusters', 'error', 'export', 'export-file', 'help', 'input', 'job-name', 'nodes'],
  ...['ntasks', 'open-mode', 'output', 'parsable', 'quiet', 'requeue', 'no-requeue', 'test-only', 'usage'],
  ...['version', 'wait', 'wrap'],
];

/** Flags whose values are passed to Slurm. They have no effect on a single machine. */
const named = ['partition', 'account', 'qos', 'time', 'constraint'] as const;

/** @throws FlagValueError for a word that is not an option of sbatch, UsageError for an option that the service sets itself */
function checkWord(word: string): void {
  const name = /^--([a-z][a-z-]*)(?:=.|$)/.exec(word)?.[1];
  if (name === undefined) {
    throw new FlagValueError('slurm-arg', 'one whole word of sbatch, such as --mem=16G', word);
  }
  if (reserved.includes(name)) {
    throw new UsageError(`--slurm-arg ${quoteName(word)}: the service sets --${name} itself; leave it out`);
  }
}

/** Flags that have no effect if jobs run on a cluster, and why. */
const localFlags: readonly (readonly [isGiven: (flags: ServeFlags) => boolean, why: string])[] = [
  [
    (flags) => flags.sandbox === 'bwrap',
    '--sandbox bwrap: a sandbox shows a job its own GPUs, and which these are is known only on the node that Slurm chooses; ' +
      'leave it out with --executor slurm, or use --sandbox off',
  ],
  [
    (flags) => flags['memory-per-job'] !== undefined,
    '--memory-per-job is held by the sandbox of a job, and there is none with --executor slurm; use --slurm-arg=--mem=SIZE',
  ],
  [
    (flags) => flags['engine-resident'],
    '--engine-resident keeps the engine loaded on this machine, and with --executor slurm jobs run on others; leave it out',
  ],
  [
    (flags) => flags['share-gpus'],
    '--share-gpus is for the GPUs of this machine, and with --executor slurm the cluster assigns them; leave it out',
  ],
  [
    (flags) => flags['cpu-slots'] !== undefined,
    '--cpu-slots counts the cores of this machine, and with --executor slurm jobs run on others; leave it out',
  ],
];

/** The options of every job in Slurm; null if jobs run on this machine. @throws UsageError naming the flag */
export function slurmOptions(flags: ServeFlags): ServerSettings['slurm'] {
  const args = flags['slurm-arg'];
  if (flags.executor === 'local') {
    const given = [
      ...named.filter((name) => flags[`slurm-${name}`] !== undefined),
      ...(args.length > 0 ? ['arg'] : []),
    ];
    if (given.length > 0)
      throw new UsageError(`--slurm-${given[0]} is for --executor slurm: add that, or leave it out`);
    return null;
  }
  const local = localFlags.find(([isGiven]) => isGiven(flags));
  if (local) throw new UsageError(local[1]);
  for (const name of named) {
    const value = flags[`slurm-${name}`];
    if (value !== undefined && !/^[\x21-\x7e]+$/.test(value)) {
      throw new FlagValueError(`slurm-${name}`, 'a word without spaces', value);
    }
  }
  const time = flags['slurm-time'] ?? null;
  if (time !== null && !timeLimit.test(time)) {
    throw new FlagValueError(
      'slurm-time',
      'a time limit such as 90 (minutes), 4:00:00 or 2-0 (days-hours)',
      time,
    );
  }
  for (const word of args) checkWord(word);
  return {
    partition: flags['slurm-partition'] ?? null,
    account: flags['slurm-account'] ?? null,
    qos: flags['slurm-qos'] ?? null,
    time,
    constraint: flags['slurm-constraint'] ?? null,
    args,
  };
}
