/**
 * `npm run test:konfai [-- --flip]`: KonfAI's real engine, clients and server against ours, on the CPU. Prints a matrix
 * of operation by client by server; exit code 0 says that every cell passed and that all results are equal.
 */

import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Workshop } from '../support/workshop.mjs';
import { askDifferences } from './ask.mjs';
import { runProgram } from './clients.mjs';
import { prepareEnvironment, programOf, Skipped } from './environment.mjs';
import { helpersRow } from './helpers.mjs';
import { changesUnseen, formatMatrix, refusalRow, runRow } from './matrix.mjs';
import { operations, refused } from './operations.mjs';
import { startOurs, startTheirs } from './servers.mjs';

const { values: flags } = parseArgs({
  options: {
    flip: { type: 'boolean', default: false },
    only: { type: 'string', multiple: true, default: [] },
  },
});
const say = (text) => process.stderr.write(`${text}\n`);

/** Runs everything in a workshop; resolves with the number of faults. */
async function test(workshop) {
  const root = path.join(workshop.root, 'made');
  const made = await runProgram(
    workshop,
    [programOf('python'), fileURLToPath(new URL('make.py', import.meta.url)), root],
    workshop.root,
  );
  if (made.code !== 0) throw new Error(`make.py: ${made.printed}`);

  const app = path.join(root, 'Contrast');
  const servers = [
    await startOurs(workshop, { apps: [app], token: 'a-token-of-ours' }),
    await startTheirs(workshop, { apps: [app], token: 'a-token-of-theirs' }),
  ];
  const place = { workshop, root, app, flip: flags.flip };
  const isChosen = ({ name }) => flags.only.length === 0 || flags.only.some((word) => name.includes(word));

  const rows = [];
  const faults = [];
  const add = (row) => {
    rows.push(row);
    for (const cell of row.cells) {
      for (const fault of cell.faults) faults.push(`${row.name}, ${cell.name}: ${fault}`);
    }
    say(`${row.name}: ${row.cells.every((cell) => cell.faults.length === 0) ? 'ok' : 'FAILED'}`);
  };
  for (const operation of operations.filter(isChosen)) add(await runRow(place, operation, servers));

  let changed = 0;
  for (const { name, cells } of rows) {
    const cell = cells.find(({ contents }) => contents);
    if (!cell) continue;
    const { changed: count, unseen } = await changesUnseen(place, cell);
    changed += count;
    for (const file of unseen) faults.push(`${name}: a changed byte of ${file} is not seen`);
  }
  if (isChosen(refused)) add(await refusalRow(place, refused, servers));
  if (isChosen({ name: 'Python helpers' })) add(await helpersRow(place, servers));

  if (isChosen({ name: 'differences' })) faults.push(...(await askDifferences(workshop, say)));

  process.stdout.write(`${rows.length > 0 ? formatMatrix(rows) : 'No row of the matrix was chosen'}\n`);
  say(`Self-test: of ${changed} files, a changed byte ${changed > 0 ? 'is seen in each' : 'was not tried'}`);
  for (const fault of faults) say(`FAILED  ${fault}`);
  return faults.length;
}

try {
  await prepareEnvironment(say);
} catch (cause) {
  if (!(cause instanceof Skipped)) throw cause;
  say(`skipped: ${cause.message}`);
  process.exit(0);
}
const workshop = await Workshop.open('konfai');
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.once(signal, async () => {
    await workshop.close();
    process.exit(130);
  });
}
try {
  process.exitCode = (await test(workshop)) === 0 ? 0 : 1;
} finally {
  await workshop.close();
}
