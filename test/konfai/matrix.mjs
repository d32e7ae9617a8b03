import { readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { logName, recordName } from '../../dist/client/output-names.js';
import { unzip } from '../support/unzip.mjs';
import { clients, runProgram } from './clients.mjs';
import { programOf } from './environment.mjs';

const contents = fileURLToPath(new URL('contents.py', import.meta.url));

/** The files of a result, as relative names, without the record that our client writes beside them. */
async function filesBelow(directory) {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const names = files.map((entry) => path.relative(directory, path.join(entry.parentPath, entry.name)));
  return names.filter((name) => name !== recordName && name !== logName).sort();
}

/** What a result's files hold, likewise: a Map from names to sums, by `contents.py`. */
async function contentsOf(workshop, directory) {
  const words = [programOf('python'), contents, directory];
  const { code, printed, stdout } = await runProgram(workshop, words, directory);
  if (code !== 0) throw new Error(`contents.py: ${printed}`);
  return new Map(
    Object.entries(JSON.parse(stdout)).filter(([name]) => name !== recordName && name !== logName),
  );
}

/** What differs between two results, a sentence a file. */
function differencesOf(first, second) {
  const names = new Set([...first.keys(), ...second.keys()]);
  return [...names].flatMap((name) => {
    if (!first.has(name)) return [`${name} is not expected`];
    if (!second.has(name)) return [`${name} is missing`];
    return first.get(name) === second.get(name) ? [] : [`${name} differs`];
  });
}

/** What differs between a result's archive and what the client made of it, byte for byte, a sentence a file. */
async function differencesFromArchive(directory) {
  const archive = unzip(await readFile(path.join(directory, 'result.zip')));
  const names = (await filesBelow(directory)).filter((name) => name !== 'result.zip');
  const extra = names.filter((name) => !archive.has(name)).map((name) => `${name} is not in result.zip`);
  const wrong = [];
  for (const [name, bytes] of archive) {
    const found = await readFile(path.join(directory, name)).catch(() => null);
    if (!found?.equals(bytes)) wrong.push(`${name} is not what result.zip has`);
  }
  return [...extra, ...wrong];
}

/** Changes one bit of a file: in the middle, but at the end of a DICOM file, where its voxels are. */
async function flipByte(file) {
  const bytes = await readFile(file);
  const at = file.endsWith('.dcm') ? bytes.length - 1 : bytes.length >> 1;
  bytes[at] ^= 1;
  await writeFile(file, bytes);
}

/** The last lines that a program printed. */
const tail = (printed) => printed.trim().split('\n').slice(-6).join('\n    ');

/** Runs one operation through one client and one server. */
async function runCell({ workshop, root, app }, operation, client, server) {
  const output = path.join(await workshop.directory('result'), 'Output');
  const words = client.words(server, app, operation, output);
  return { output, ...(await runProgram(workshop, words, root)) };
}

/** One cell: the operation succeeds, writes what it is to write, and the client has it as the server packed it. */
async function resultCell(place, operation, client, server) {
  const { output, code, printed } = await runCell(place, operation, client, server);
  if (code !== 0) return { faults: [`ended with ${code}:\n    ${tail(printed)}`] };
  const contents = await contentsOf(place.workshop, output);
  const faults = await differencesFromArchive(output);
  if (![...contents.keys()].some((name) => operation.writes.test(name))) {
    faults.push(`wrote ${[...contents.keys()].join(', ') || 'nothing'}`);
  }
  if (server.isLoaded && !/it stays loaded|is loaded already/.test(printed)) {
    faults.push('ran in an engine that was started for it');
  }
  return { output, contents, faults };
}

/**
 * One row: every client with every server. The first cell's result is what the others are held to.
 * @param place `workshop`; `root`: what make.py made; `app`: the app's identifier; `flip`: change a byte of the last
 *   result before it is compared, to see that the row fails
 */
export async function runRow(place, operation, servers) {
  const cells = [];
  for (const client of clients) {
    for (const server of servers) {
      const startedAt = performance.now();
      const cell = await resultCell(place, operation, client, server);
      const seconds = (performance.now() - startedAt) / 1000;
      cells.push({ name: `${client.name}, ${server.side}`, seconds, ...cell });
    }
  }
  const last = cells.at(-1);
  if (place.flip && last.output) {
    const name = [...last.contents.keys()].find((each) => operation.writes.test(each));
    await flipByte(path.join(last.output, name));
    last.contents = await contentsOf(place.workshop, last.output);
  }
  const [first, ...others] = cells.filter(({ contents }) => contents);
  for (const cell of others) cell.faults.push(...differencesOf(first.contents, cell.contents));
  return { name: operation.name, cells };
}

/** The row of what the engine refuses: both clients fail, with the engine's own sentence. */
export async function refusalRow(place, operation, servers) {
  const cells = [];
  for (const client of clients) {
    for (const server of servers) {
      const startedAt = performance.now();
      const { code, printed } = await runCell(place, operation, client, server);
      const faults = [];
      if (code === 0) faults.push('succeeded');
      if (!operation.sentence.test(printed)) faults.push(`does not say why:\n    ${tail(printed)}`);
      // Of our command line a refusal is the fault of what was asked for, as any other wrong word of it.
      if (client.name === 'our client' && code !== 2) faults.push(`ended with ${code}`);
      const seconds = (performance.now() - startedAt) / 1000;
      cells.push({ name: `${client.name}, ${server.side}`, seconds, faults });
    }
  }
  return { name: operation.name, cells };
}

/**
 * The self-test of the comparison: of one result, a changed byte in each file that is compared as bytes is seen.
 * @returns the names of the files whose change was not seen, and how many were changed
 */
export async function changesUnseen(place, { output, contents }) {
  const names = [...contents.keys()].filter((name) => !path.basename(name).startsWith('log_'));
  for (const name of names) await flipByte(path.join(output, name));
  const after = await contentsOf(place.workshop, output);
  return { changed: names.length, unseen: names.filter((name) => after.get(name) === contents.get(name)) };
}

const columns = [
  'our client, our server',
  'our client, their server',
  'our client, ours, loaded',
  'their client, our server',
  'their client, their server',
  'their client, ours, loaded',
];

const cellText = (cell) =>
  cell ? `${cell.faults.length === 0 ? 'ok' : 'FAILED'} ${cell.seconds.toFixed(1)} s` : '-';

/** The matrix as text: a row for each operation, a column for each pair of client and server. */
export function formatMatrix(rows) {
  const lines = rows.map(({ name, cells }) => [
    name,
    ...columns.map((column) => cellText(cells.find((cell) => cell.name === column))),
  ]);
  const all = [['', ...columns], ...lines];
  const widths = all[0].map((_, index) => Math.max(...all.map((line) => line[index].length)));
  return all
    .map((line) =>
      line
        .map((text, index) => text.padEnd(widths[index]))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
