/**
 * `npm run test:konfai [-- --flip]`: KonfAI's real engine, clients and server against ours, on the CPU. Prints a matrix
 * of operation by client by server; exit code 0 says that every cell passed and that all results are equal.
 */
import { parseArgs } from 'node:util';
import { askDifferences } from './ask.mjs';
import { withStandIns } from './environment.mjs';
import { helpersRow } from './helpers.mjs';
import { interruptionRow } from './interruption.mjs';
import { changesUnseen, formatMatrix, refusalRow, runRow } from './matrix.mjs';
import { operations, refused } from './operations.mjs';
import { startForward, startOurs, startTheirs } from './servers.mjs';
import { say, session } from './session.mjs';
import { warmFaults } from './warm.mjs';

const { values: flags } = parseArgs({
  options: {
    flip: { type: 'boolean', default: false },
    only: { type: 'string', multiple: true, default: [] },
  },
});

/** The name of the row in which clients reach our server through `remote-app forward`. */
const throughForward = 'Python helpers through forward';

/** The row of Ctrl-C, with servers of its own, on which a job can take long. */
async function interrupted(place) {
  const options = { apps: [place.app], token: 'a-token', env: { PATH: withStandIns } };
  const servers = [await startOurs(place.workshop, options), await startTheirs(place.workshop, options)];
  const row = await interruptionRow(place, servers);
  await Promise.all(servers.map((server) => server.stop()));
  return row;
}

/** Runs everything that was chosen; resolves with the number of faults. */
async function test({ workshop, root, app }) {
  const servers = [
    await startOurs(workshop, { apps: [app], token: 'a-token-of-ours' }),
    await startTheirs(workshop, { apps: [app], token: 'a-token-of-theirs' }),
  ];
  const loaded = await startOurs(workshop, { apps: [app], token: 'a-token', isLoaded: true });
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
  for (const operation of operations.filter(isChosen))
    add(await runRow(place, operation, [...servers, loaded]));

  const selfTest = { changed: 0, unseen: 0 };
  for (const { name, cells } of rows) {
    const cell = cells.find(({ contents }) => contents);
    if (!cell) continue;
    const { changed: count, unseen } = await changesUnseen(place, cell);
    selfTest.changed += count;
    selfTest.unseen += unseen.length;
    for (const file of unseen) faults.push(`${name}: a changed byte of ${file} is not seen`);
  }
  if (isChosen(refused)) add(await refusalRow(place, refused, servers));
  if (isChosen({ name: 'Python helpers' })) add(await helpersRow(place, servers));
  if (isChosen({ name: throughForward })) {
    const forward = await startForward(workshop, servers[0]);
    add(await helpersRow(place, [forward, servers[1]], throughForward));
    await forward.stop();
  }

  await Promise.all([...servers, loaded].map((server) => server.stop()));

  if (isChosen({ name: 'Ctrl-C' })) add(await interrupted(place));
  faults.push(...(await warmFaults(place, isChosen, say)));
  if (isChosen({ name: 'differences' })) faults.push(...(await askDifferences(workshop, say)));

  process.stdout.write(`${rows.length > 0 ? formatMatrix(rows) : 'No row of the matrix was chosen'}\n`);
  say(`Self-test: a byte was changed in ${selfTest.changed} files, and not seen in ${selfTest.unseen}`);
  for (const fault of faults) say(`FAILED  ${fault}`);
  return faults.length;
}

await session('konfai', async (made) => {
  process.exitCode = (await test(made)) === 0 ? 0 : 1;
});
