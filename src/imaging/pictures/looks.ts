import type { VolumeFile } from '@remote-app/volumes';
import { pausing } from './pausing.js';
import { WholeLabels } from './whole-labels.js';

/** Maximum number of different values in a segmentation, without the background. */
const maxLabels = 256;

/** Number of slices examined. */
const lookedAt = 16;

/** What a volume looks like: a mask with one value or none, a segmentation with several labels, or anything else. */
export type Looks = 'binary' | 'labels' | 'continuous';

/**
 * For one value: how many of its voxels have a left neighbour in the foreground, and how many of these neighbours have the same
 * value.
 */
interface Runs {
  pairs: number;
  same: number;
}

/**
 * Guesses what a volume is from slices spread over it, since the first ones may be air with faint noise. A segmentation has few
 * different values: whole numbers, most of which form areas. Eight-bit intensities are few whole numbers too, but vary from voxel
 * to voxel. A nearly constant background may make up most of the voxels of such a volume, but only some of its values.
 */
export async function looksOf(file: VolumeFile, signal?: AbortSignal): Promise<Looks> {
  if (file.labels !== null) return 'labels';
  if (file.components > 1 || file.modality !== null) return 'continuous';
  const [width, height, depth] = file.size;
  const only = [
    ...new Set(Array.from({ length: lookedAt }, (_, at) => Math.floor(((at + 0.5) * depth) / lookedAt))),
  ];
  const whole = new WholeLabels();
  const runs = new Map<number, Runs>();
  for await (const { values } of pausing(file.slices({ only }), signal)) {
    for (let y = 0, at = 0; y < height; y += 1) {
      let before: Runs | undefined;
      for (let x = 0, last = 0; x < width; x += 1, at += 1) {
        const value = values[at] as number;
        const isSame = value === last && before !== undefined;
        if (before && value !== 0 && !Number.isNaN(value)) {
          before.pairs += 1;
          if (isSame) before.same += 1;
        }
        last = value;
        if (isSame) continue;
        before = undefined;
        if (value === 0 || Number.isNaN(value)) continue;
        before = runs.get(value);
        if (before) continue;
        const label = whole.of(value);
        if (label === null) return 'continuous';
        if (label === 0) continue;
        before = { pairs: 0, same: 0 };
        runs.set(value, before);
        if (runs.size > maxLabels) return 'continuous';
      }
    }
  }
  const all = [...runs.values()].filter(({ pairs }) => pairs > 0);
  const inAreas = all.filter(({ pairs, same }) => same * 2 >= pairs);
  const [pairs, same] = [sumOf(all, 'pairs'), sumOf(all, 'same')];
  if ((whole.isScaled && !whole.hasAny) || same * 2 < pairs || inAreas.length * 2 < all.length)
    return 'continuous';
  return runs.size > 1 ? 'labels' : 'binary';
}

const sumOf = (runs: readonly Runs[], of: keyof Runs): number =>
  runs.reduce((sum, each) => sum + each[of], 0);
