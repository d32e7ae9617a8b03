/**
 * `npm run test:konfai [-- --flip]`: KonfAI's real engine, clients and server against ours, on the CPU. Prints a matrix
 * of operation by client by server; exit code 0 says that every cell passed and that all results are equal.
 */
import { once } from 'node:events';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { until } from '../support/until.mjs';
import { askDifferences } from './ask.mjs';
import { clients, runProgram } from './clients.mjs';
import { programOf, withStandIns } from './environment.mjs';
import { stateOf } from './jobs.mjs';
import { changesUnseen, formatMatrix, refusalRow, runRow } from './matrix.mjs';
import { operations, refused } from './operations.mjs';
import { environment, startForward, startOurs, startTheirs } from './servers.mjs';
import { say, session } from './session.mjs';

const program = fileURLToPath(new URL('helpers.py', import.meta.url));

/** How KonfAI's Python classes see a server (`helpers.py`). */
async function answersOf({ workshop, root, app }, server) {
  const output = path.join(await workshop.directory('helpers'), 'Output');
  const words = [program, '127.0.0.1', server.port, server.token, app, path.join(root, 'scan.mha'), output];
  const { stdout, printed } = await runProgram(workshop, [programOf('python'), ...words], root);
  const answers = /^ANSWERS (.*)$/m.exec(stdout)?.[1];
  if (!answers) throw new Error(`helpers.py with ${server.side}: ${printed.slice(-2000)}`);
  return JSON.parse(answers);
}

/** Our server says why a job was refused on one line, as every error: in the log stream it has to be one. */
const onOneLine = (answer) => JSON.stringify(answer)?.replaceAll(/(\\[nt]|\s)+/g, ' ');

/**
 * The row of the Python helpers, and of what the 3D Slicer extension calls: every answer is the same from both servers.
 * @param servers ours first
 */
async function helpersRow(place, servers, title = 'Python helpers') {
  const cells = [];
  for (const server of servers) {
    const startedAt = performance.now();
    const answers = await answersOf(place, server);
    cells.push({
      name: `their client, ${server.side}`,
      seconds: (performance.now() - startedAt) / 1000,
      answers,
    });
  }
  const [ours, theirs] = cells.map(({ answers }) => answers);
  const names = [...new Set([...Object.keys(ours), ...Object.keys(theirs)])];
  const wrong = names.filter((name) => onOneLine(ours[name]) !== onOneLine(theirs[name]));
  const faults = wrong.map((name) => `${name}: ${onOneLine(ours[name])} and not ${onOneLine(theirs[name])}`);
  return {
    name: `${title} (${names.length} questions)`,
    cells: cells.map((cell, index) => ({ ...cell, faults: index === 0 ? faults : [] })),
  };
}

/** A job that takes long, with the program of `test/konfai/engine`. */
const operation = {
  theirs: ['infer', '-i', 'scan.mha', '--set', 'SLEEP=60'],
  ours: ['infer', '-i', 'scan.mha', '--set', 'SLEEP=60'],
};

/** Interrupts a client as Ctrl-C does, once the job's command has printed something. Returns what went wrong afterwards. */
async function interrupt({ workshop, root, app }, client, server) {
  const [program, ...words] = client.words(server, app, operation, await workshop.directory('interrupted'));
  const child = workshop.start(program, words, {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: environment,
  });
  let printed = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => {
      printed += chunk;
    });
  const closed = once(child, 'close');
  await until(`${client.name} shows the log`, () => printed.includes('konfai-apps infer'), 60_000);
  child.kill('SIGINT');
  const [code] = await closed;
  const id = /\b[0-9a-f]{12}\b/.exec(printed)?.[0];
  const { status } = await stateOf(server, id);
  return [
    ...(code === 130 ? [] : [`ended with ${code}: ${printed.slice(-500)}`]),
    ...(status === 'killed' ? [] : [`the job is ${status}`]),
  ];
}

/**
 * The row of Ctrl-C: every client ends with 130, and has killed the job on every server.
 * @param servers with the program of `test/konfai/engine`
 */
async function interruptionRow(place, servers) {
  const cells = [];
  for (const client of clients) {
    for (const server of servers) {
      const startedAt = performance.now();
      const faults = await interrupt(place, client, server);
      const seconds = (performance.now() - startedAt) / 1000;
      cells.push({ name: `${client.name}, ${server.side}`, seconds, faults });
    }
  }
  return { name: 'Ctrl-C', cells };
}

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

/** Runs everything that was chosen. Resolves with the number of faults. */
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
  if (isChosen({ name: 'differences' })) faults.push(...(await askDifferences(workshop, say)));

  process.stdout.write(`${rows.length > 0 ? formatMatrix(rows) : 'No row of the matrix was chosen'}\n`);
  say(`Self-test: a byte was changed in ${selfTest.changed} files, and not seen in ${selfTest.unseen}`);
  for (const fault of faults) say(`FAILED  ${fault}`);
  return faults.length;
}

await session('konfai', async (made) => {
  process.exitCode = (await test(made)) === 0 ? 0 : 1;
});
