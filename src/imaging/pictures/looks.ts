import type { VolumeFile } from '@remote-app/volumes';
import { pausing } from './pausing.js';
import { WholeLabels } from './whole-labels.js';

/** Maximum number of different values of a segmentation that are looked for, without the background. */
const maxLabels = 256;

/** Slices of which the values are looked at. */
const lookedAt = 16;

/** Pairs of neighbours in the foreground after which it is clear what a volume is. */
const enoughPairs = 2000;

/** What a volume looks like: a mask with one value or none, a segmentation with several labels, or anything else. */
export type Looks = 'binary' | 'labels' | 'continuous';

/**
 * What a volume looks like. Of a segmentation, the values are few whole numbers, and neighbours mostly have the same one. Eight bits of
 * brightness are few integers too, but differ from voxel to voxel. Reads only as many slices as it takes to see that.
 */
export async function looksOf(file: VolumeFile, signal?: AbortSignal): Promise<Looks> {
  if (file.labels !== null) return 'labels';
  if (file.components > 1 || file.modality !== null) return 'continuous';
  const [width, height, depth] = file.size;
  const only = [
    ...new Set(Array.from({ length: lookedAt }, (_, at) => Math.floor(((at + 0.5) * depth) / lookedAt))),
  ];
  const whole = new WholeLabels();
  const known = new Set<number>();
  let [pairs, same] = [0, 0];
  for await (const { values } of pausing(file.slices({ only }), signal)) {
    for (let y = 0, at = 0; y < height; y += 1) {
      let before = 0;
      for (let x = 0; x < width; x += 1, at += 1) {
        const value = values[at] as number;
        if (value !== 0 && !Number.isNaN(value)) {
          if (value !== before) {
            const label = whole.of(value);
            if (label === null) return 'continuous';
            if (label !== 0) known.add(label);
          }
          if (before !== 0) {
            pairs += 1;
            if (value === before) same += 1;
          }
          before = value;
        } else before = 0;
      }
      if (known.size > maxLabels) return 'continuous';
    }
    if (pairs > enoughPairs) break;
  }
  if ((whole.isScaled && !whole.hasAny) || same * 2 < pairs) return 'continuous';
  return known.size > 1 ? 'labels' : 'binary';
}
