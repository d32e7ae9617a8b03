import path from 'node:path';
import { type JoinedMasks, joinMasks, VolumeError, type VolumeFile } from '@remote-app/volumes';
import { withoutVolumeEnding } from '../inputs/index.js';
import { type Named, nameInGroup, organGroups, type Terminology } from '../matching/index.js';
import type { Scans } from './scans.js';
import { segmentNamed } from './segments.js';

/** A mask with at most one value. */
export interface ResultMask {
  readonly volume: VolumeFile;
  /** The names that its scan is matched by. */
  readonly named: Named;
}

/** Masks of single segments that become one file with named segments. */
export interface MaskGroup<T extends ResultMask> extends JoinedMasks {
  readonly masks: readonly T[];
  /** Path of the file without its extension. */
  readonly stem: string;
}

const nameOf = ({ path: file }: VolumeFile): string => withoutVolumeEnding(path.basename(file));

/** The name of the file of masks, in their folder. */
const stemOf = (prefix: string): string => (prefix === '' ? 'segments' : `${prefix}_segments`);

/**
 * Combines masks into one segmentation whose segments are named after the files. A segment takes the colour and code of the app's
 * label of that name, if there is one.
 * @throws VolumeError for a mask of several values, and for masks on different grids
 */
export async function joinNamed<T extends ResultMask>(
  masks: readonly T[],
  prefix: string,
  terminology: Terminology,
): Promise<MaskGroup<T>> {
  const ordered = masks.toSorted((one, other) => (nameOf(one.volume) < nameOf(other.volume) ? -1 : 1));
  const stem = path.join(path.dirname(ordered[0]?.volume.path ?? ''), stemOf(prefix));
  const single = ordered.map(({ volume }) => {
    const name = nameInGroup(nameOf(volume), prefix);
    return { mask: volume, segment: segmentNamed(name, terminology) ?? { name, color: null, snomed: null } };
  });
  return { ...(await joinMasks(single, stem)), masks: ordered, stem };
}

/**
 * The masks of a result that are combined: those that share a folder, grid and scan and are each named after a different
 * structure, unless the app gives their value another name. Masks in doubt remain separate files.
 * @param taken paths of other volumes, without their extensions
 */
export async function groupMasks<T extends ResultMask>(
  masks: readonly T[],
  taken: ReadonlySet<string>,
  terminology: Terminology,
  scans: Scans,
): Promise<MaskGroup<T>[]> {
  const labels = Object.values(terminology).map(({ name }) => name);
  const candidates = masks.map((mask) => ({ file: mask.volume, name: nameOf(mask.volume), mask }));
  const groups: MaskGroup<T>[] = [];
  for (const { masks: found, prefix } of organGroups(candidates, labels)) {
    const members = found.map(({ mask }) => mask);
    if (!scans.areOfOne(members.map(({ named }) => named))) continue;
    try {
      const group = await joinNamed(members, prefix, terminology);
      const isOtherwise = group.masks.some(({ volume }, at) => {
        const isKnown = segmentNamed(nameInGroup(nameOf(volume), prefix), terminology) !== null;
        return !isKnown && terminology[group.values[at] ?? 0] !== undefined;
      });
      if (!isOtherwise && !taken.has(group.stem)) groups.push(group);
    } catch (error) {
      // Several values, or damaged: converting the masks one by one reports it.
      if (!(error instanceof VolumeError)) throw error;
    }
  }
  return groups;
}
