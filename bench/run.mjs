/**
 * `npm run bench [-- ROW...] [--runs N] [--json]`: measures the built product and prints the table.
 * A word selects every row whose name begins with it. See bench/README.md.
 */
import { existsSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { Workshop } from '../test/support/workshop.mjs';
import { rows } from './rows/index.mjs';
import { measureRow } from './support/measure-row.mjs';
import { formatTable } from './support/report.mjs';

const { values: flags, positionals: words } = parseArgs({
  allowPositionals: true,
  options: {
    json: { type: 'boolean', default: false },
    runs: { type: 'string', default: '3' },
  },
});

/** Progress goes to stderr: stdout is the table, or the JSON document, alone. */
const say = (line) => process.stderr.write(`${line}\n`);

function usage(problem) {
  say(`${problem}\nRows: ${rows.map(({ name }) => name).join(', ')}`);
  process.exit(2);
}

function selected(names) {
  if (names.length === 0) return rows;
  for (const name of names) if (!rows.some((row) => row.name.startsWith(name))) usage(`No row '${name}'`);
  return rows.filter((row) => names.some((name) => row.name.startsWith(name)));
}

const rounds = Number(flags.runs);
if (!Number.isInteger(rounds) || rounds < 1) usage(`--runs ${flags.runs} is no number of rounds`);
if (!existsSync(new URL('../dist/server/serve.js', import.meta.url))) usage('Build first: npm run build');

const chosen = selected(words);

const workshop = await Workshop.open('bench', process.env.REMOTE_APP_BENCH_DIR);
const interruption = new AbortController();
const bench = { workshop, rounds, signal: interruption.signal };

// A run that ends by Ctrl-C leaves nothing behind either.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.once(signal, async () => {
    interruption.abort();
    process.exitCode = 130;
    await workshop.close();
    process.exit();
  });
}

try {
  const results = [];
  for (const row of chosen) {
    const startedAt = performance.now();
    const result = await measureRow(bench, row);
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(0);
    const ratio = result.ratio === null ? '' : `, ratio ${result.ratio}`;
    const fault = result.fault ? ` (${result.fault})` : '';
    say(`${row.name}: ${result.holds ? 'holds' : 'DOES NOT HOLD'}${ratio}${fault}; measured in ${seconds} s`);
    results.push(result);
  }
  process.stdout.write(`${flags.json ? JSON.stringify(results, null, 2) : formatTable(results)}\n`);
} catch (cause) {
  // An interruption makes other steps fail in many ways; only the interruption is reported.
  if (!interruption.signal.aborted) throw cause;
} finally {
  await workshop.close();
}
