import { createHash } from 'node:crypto';
import path from 'node:path';
import { foldedName, freeName } from '../../files/index.js';
import { type CaseRecord, digestOf, hashInputs, stampIfThere } from '../case/index.js';
import { type FoundCase, type FoundFiles, filesOfUnit } from '../found-files.js';
import { LastLooks } from './last-looks.js';
import type { Layout } from './layout.js';

/** Where the files of a case are, as a hash: the file of what was seen names no paths. */
export function placeOf({ volumes }: FoundFiles): string {
  const paths = volumes[0]?.groups[0]?.map((unit) => path.resolve(unit.path)) ?? [];
  return createHash('sha256').update(JSON.stringify(paths)).digest('hex');
}

/** What of the inputs is known without reading them. */
const outlineOf = (inputs: readonly { field: string; group: number; name: string; size: number }[]): string =>
  JSON.stringify(inputs.map(({ field, group, name, size }) => [field, group, name, size]));

const outlineOfFiles = ({ volumes }: FoundFiles): string =>
  outlineOf(
    volumes.flatMap(({ field, groups }) =>
      groups.flatMap((units, group) =>
        units
          .flatMap(filesOfUnit)
          .map(({ name, size }) => ({ field: field.name, group, name, size: size ?? -1 })),
      ),
    ),
  );

/**
 * Gives cases the names under which earlier commands know them, however many others have come since: by the times and identities of
 * their files, then by the contents that the records name, then by their places. A new case gets a name that no other one has.
 * @param output the directory of the results
 */
export async function namedAsBefore(
  output: string,
  layout: Layout,
  found: readonly FoundCase[],
  signal?: AbortSignal,
): Promise<FoundCase[]> {
  const looks = new LastLooks(output);
  const taken = new Set<string>();
  const names = new Map<FoundCase, string>();
  const claim = (each: FoundCase, name: string | undefined): boolean => {
    if (name === undefined || taken.has(foldedName(name))) return false;
    taken.add(foldedName(name));
    names.set(each, name);
    return true;
  };
  const left = () => found.filter((each) => !names.has(each));

  const stamps = new Map(found.map((each) => [each, stampIfThere(each.files)]));
  for (const each of found) {
    const stamp = stamps.get(each) ?? null;
    if (stamp !== null && looks.get(each.name).stamp === stamp) claim(each, each.name);
  }
  const byStamp = new Map(looks.entries.map(([name, { stamp }]) => [stamp, name]));
  for (const each of left()) claim(each, byStamp.get(stamps.get(each) ?? ''));

  const records = left().length > 0 ? layout.records() : new Map<string, CaseRecord>();
  const outlines = new Map<string, [string, string][]>();
  for (const [name, { inputs }] of records) {
    const outline = outlineOf(inputs);
    outlines.set(outline, [...(outlines.get(outline) ?? []), [name, digestOf(inputs)]]);
  }
  for (const each of left()) {
    const candidates = outlines
      .get(outlineOfFiles(each.files))
      ?.filter(([name]) => !taken.has(foldedName(name)));
    if (each.fault !== null || !candidates?.length) continue;
    // A file that cannot be read is reported when its turn comes.
    const inputs = await hashInputs(each.files, signal).catch(() => null);
    signal?.throwIfAborted();
    const digest = inputs && digestOf(inputs);
    const fitting = candidates.flatMap(([name, wanted]) => (wanted === digest ? [name] : []));
    claim(each, fitting.find((name) => name === each.name) ?? fitting[0]);
  }

  const byPlace = new Map(looks.entries.map(([name, { place }]) => [place, name]));
  for (const each of left()) claim(each, byPlace.get(placeOf(each.files)));

  // The result of another place has the name that this case would have.
  const ofOthers = looks.entries.filter(([name, { place }]) => place !== null && records.has(name));
  for (const [name] of ofOthers) taken.add(foldedName(name));
  const counts = new Map<string, number>();
  for (const each of left()) {
    const free = freeName(each.name, counts, (name) => taken.has(foldedName(name)));
    claim(each, free);
  }
  return found.map((each) => ({ ...each, name: names.get(each) ?? each.name }));
}
