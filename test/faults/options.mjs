import { parseArgs } from 'node:util';

const usage = `Usage: npm run faults -- [--seed N] [--rounds N] [--only NAME,...] [--serial] [--keep]
                             [--executor local|slurm]

  --seed N      makes the random choices of an earlier run again; by default a new one
  --rounds N    how much of everything; 10 (the default) takes about six minutes, 0.5 some seconds
  --only NAMES  these families alone
  --serial      one family after the other, instead of three lanes side by side
  --keep        leaves the scratch directory behind
  --executor X  where jobs run: on this machine (local, the default), or on a Slurm cluster that is started for the run
                (slurm), over which these families go: server-death`;

/** The families whose cases are those of every executor, and not of this machine's processes, disks and GPUs. */
const ofEveryExecutor = ['server-death'];

/** The command line of the harness; ends the process where it is wrong. */
export function readOptions(families, words) {
  const fail = (problem) => {
    console.error(`${problem}\n\n${usage}\n\nFamilies: ${families.join(', ')}`);
    process.exit(2);
  };
  let values;
  try {
    ({ values } = parseArgs({
      args: words,
      options: {
        seed: { type: 'string', default: String(Date.now() % 1_000_000) },
        rounds: { type: 'string', default: '10' },
        only: { type: 'string' },
        executor: { type: 'string', default: 'local' },
        serial: { type: 'boolean', default: false },
        keep: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    }));
  } catch (cause) {
    return fail(cause.message);
  }
  if (values.help) {
    console.log(usage);
    process.exit(0);
  }
  if (!['local', 'slurm'].includes(values.executor)) fail(`There is no executor '${values.executor}'`);
  const possible = values.executor === 'local' ? families : ofEveryExecutor;
  const only = values.only?.split(',') ?? possible;
  const unknown = only.filter((name) => !families.includes(name));
  if (unknown.length > 0) fail(`There is no family '${unknown[0]}'`);
  const local = only.filter((name) => !possible.includes(name));
  if (local.length > 0) fail(`The family '${local[0]}' does not go over the executor '${values.executor}'`);
  if (!(Number(values.rounds) > 0)) fail('--rounds must be a number above 0');
  if (!/^\d+$/.test(values.seed)) fail('--seed must be a number');
  return { ...values, rounds: Number(values.rounds), only };
}
