import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { attributes } from '@remote-app/volumes/attributes';

const factsFile = new URL('../imaging/deidentify/basic-profile.txt', import.meta.url);

/** How the table has an attribute: the first of its parts that has it, where times and uptake are kept. */
const rowOf = (tag) =>
  [attributes.emission, attributes.timed, attributes.image].map((rows) => rows.get(tag)).find(Boolean);

/** Why another tool may find an attribute in what leaves; null where it may not. */
function reasonFor(tag, profile) {
  const row = rowOf(tag);
  if (!row) return null;
  if (['uid', 'well-known', 'pseudonym', 'fallback'].includes(row.treatment)) return 'written anew';
  if (row.option !== null) return row.option;
  return profile.has(tag) ? null : 'not in the Basic Profile';
}

/** Asks other tools what they would still remove or replace in de-identified files: only what the table has a reason for. */
export async function judgeWithOthers(directory, outputs, { ask, check }) {
  const list = path.join(directory, 'outputs.json');
  await writeFile(list, JSON.stringify(outputs));
  const profile = new Set((await readFile(factsFile, 'utf8')).match(/^[0-9a-f]{8}(?= )/gm));
  for (const [tool, found] of Object.entries(await ask('others', list))) {
    const byReason = new Map();
    for (const tag of Object.keys(found).sort()) {
      const reason = reasonFor(tag, profile);
      byReason.set(reason, [...(byReason.get(reason) ?? []), tag]);
    }
    const nameOf = (tag) => `${rowOf(tag)?.name.split(' ')[0] ?? tag} ${found[tag].length}`;
    const wrong = (byReason.get(null) ?? []).map((tag) => `${nameOf(tag)} times, as in ${found[tag][0]}`);
    const told = [...byReason].map(
      ([reason, tags]) => `${reason ?? 'no reason'}: ${tags.map(nameOf).join(', ')}`,
    );
    check(`what ${tool} would still remove`, wrong, `in ${outputs.length} files; ${told.join('; ')}`);
  }
}
