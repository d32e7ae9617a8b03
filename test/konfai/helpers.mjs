import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { runProgram } from './clients.mjs';
import { programOf } from './environment.mjs';

const program = fileURLToPath(new URL('helpers.py', import.meta.url));

/** What KonfAI's Python classes make of a server: see `helpers.py`. */
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
export async function helpersRow(place, servers, title = 'Python helpers') {
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
