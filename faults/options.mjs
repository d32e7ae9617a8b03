import { parseArgs } from 'node:util';

const usage = `Usage: npm run faults -- [--seed N] [--rounds N] [--only NAME,...] [--serial] [--keep]

  --seed N      makes the random choices of an earlier run again; by default a new one
  --rounds N    how much of everything; 10 (the default) takes about six minutes, 0.5 some seconds
  --only NAMES  these families alone
  --serial      one family after the other, instead of two lanes side by side
  --keep        leaves the scratch directory behind`;

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
        only: { type: 'string', default: families.join(',') },
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
  const only = values.only.split(',');
  const unknown = only.filter((name) => !families.includes(name));
  if (unknown.length > 0) fail(`There is no family '${unknown[0]}'`);
  if (!(Number(values.rounds) > 0)) fail('--rounds must be a number above 0');
  if (!/^\d+$/.test(values.seed)) fail('--seed must be a number');
  return { ...values, rounds: Number(values.rounds), only };
}
