import path from 'node:path';
import type { Field } from '../../../contract/fields.js';
import type { Submission } from '../submission.js';
import { type DataSet, findDataSet } from './data-set.js';
import { collectUnits, type Unit } from './inputs.js';
import { namesOf, plainName } from './names.js';
import { Obstacles } from './obstacles.js';
import { type Pairing, pairGroups } from './pairing.js';

/** A volume, or a data set, and the name by which the app gets it; of a data set, the name of the archive. */
type Named<T> = T & { readonly name: string };

export type NamedUnit = Named<Unit>;
export type NamedDataSet = Named<DataSet>;

/** What a submission sends, before anything is packed. */
export interface FoundFiles {
  readonly volumes: readonly { readonly field: Field; readonly groups: readonly (readonly NamedUnit[])[] }[];
  readonly dataSet: { readonly field: Field; readonly set: NamedDataSet } | null;
  /** Files beside volumes, which are not volumes themselves and are not sent. */
  readonly skipped: readonly string[];
  /** Groups of which a person is told what belongs together. */
  readonly pairings: readonly Pairing[];
}

/** Headers that say inside which file has their voxels. */
const detachedHeader = /\.(mhd|nhdr)$/i;

function nameUnits(units: readonly Unit[], obstacles: Obstacles): NamedUnit[] {
  const names = namesOf(units.map((unit) => unit.path));
  return units.map((unit, index) => {
    const name = names[index] ?? '';
    if (detachedHeader.test(unit.path) && name !== plainName(unit.path)) {
      const why =
        'shares its name with another file and says inside which file has its voxels, so neither can be renamed; ' +
        'give them different names, or make one file of each (.mha, .nrrd)';
      obstacles.add(unit.path, why);
    }
    return { ...unit, name };
  });
}

function archiveName(set: DataSet): string {
  const name = path.basename(path.resolve(set.path));
  return set.files === null ? name : `${name}.zip`;
}

/**
 * Finds all files of a submission and the names under which they are sent.
 * @param output where the result will go: it is not sent along with a directory that it lies in
 * @throws UsageError for what cannot be sent
 */
export async function findFiles(submission: Submission, output: string | null): Promise<FoundFiles> {
  const { archive, allFiles = false } = submission;
  const obstacles = new Obstacles();
  const skipped: string[] = [];
  const named: NamedUnit[][] = [];
  for (const group of submission.files.flatMap(({ groups }) => groups)) {
    const collected = await collectUnits(group, { output, obstacles, allFiles });
    skipped.push(...collected.skipped);
    named.push(nameUnits(collected.units, obstacles));
  }
  const set = archive && (await findDataSet(archive.path, obstacles));
  obstacles.check();
  const dataSet = archive && set && { field: archive.field, set: { ...set, name: archiveName(set) } };
  const { groups: paired, pairings } = pairGroups(named);
  const rest = [...paired];
  const volumes = submission.files.map(({ field, groups }) => ({
    field,
    groups: rest.splice(0, groups.length),
  }));
  return { volumes, dataSet, skipped, pairings };
}
