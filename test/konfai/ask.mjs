import { cp, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { differences } from './differences/index.mjs';
import { sideOf } from './side.mjs';

const appFiles = fileURLToPath(new URL('app', import.meta.url));

/** The apps that the questions need: the test's own, and one whose `app.json` lacks what has to be there. */
async function makeApps(workshop) {
  const root = await workshop.directory('asked');
  const [app, brokenApp] = [path.join(root, 'Contrast'), path.join(root, 'Broken')];
  for (const directory of [app, brokenApp]) await cp(appFiles, directory, { recursive: true });
  await writeFile(path.join(brokenApp, 'app.json'), '{ "display_name": "Broken" }');
  return { app, brokenApp };
}

/**
 * Asks both servers every question of the table of differences.
 * @param say called with a line for each question
 * @returns a sentence for each answer that the table does not have
 */
export async function askDifferences(workshop, say) {
  const place = { workshop, ...(await makeApps(workshop)) };
  const [theirs, ours] = [await sideOf(place, false), await sideOf(place, true)];
  const faults = [];
  for (const row of Object.values(differences).flat()) {
    const answers = [];
    for (const side of [theirs, ours]) {
      answers.push(await row.probe(side).catch(({ message }) => `the question failed: ${message}`));
    }
    const wrong = answers.flatMap((answer, index) =>
      answer === null || answer === row.seen[index]
        ? []
        : [`${row.what}: ${[theirs, ours][index].server.side} gave '${answer}', not '${row.seen[index]}'`],
    );
    faults.push(...wrong);
    const asked = answers.includes(null) ? 'not asked: this machine cannot show it' : 'ok';
    say(`${row.what}: ${wrong.length === 0 ? asked : 'FAILED'}`);
  }
  await Promise.all([theirs.server.stop(), ours.server.stop()]);
  return faults;
}
