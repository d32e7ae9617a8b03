import type { Slice, VolumeHeader, Voxels } from '@remote-app/volumes';
import type { Colour } from './picture.js';
import { WholeLabels } from './whole-labels.js';

/** Maximum number of different values counted: a volume with more is not a segmentation. */
const maxCounted = 4096;

/** The values of a segmentation, how often each occurs, and where. */
export interface Counts {
  /** By value, in ascending order. */
  readonly values: readonly { readonly value: number; readonly voxels: number }[];
  /**
   * How much label content each index has, by axis of the array: the sum over all labels of the fraction of the label at that
   * index, so that small labels weigh as much as large ones.
   */
  readonly weights: readonly [Float64Array, Float64Array, Float64Array];
  /** Whether the values are labels only when they are rounded: 0.996 is 1. */
  readonly isScaled: boolean;
}

/** Maximum number of counts held: those of 256 labels along 500,000 rows, columns and slices. */
const maxCounts = 1 << 27;

/**
 * Counts the labels of a segmentation, slice by slice. Voxels that are 0 or NaN have no label.
 * @returns null if the values are not those of a segmentation: continuous, or more than 4,096 different ones
 */
export async function countLabels(
  slices: AsyncIterable<Slice>,
  { size }: Pick<VolumeHeader, 'size'>,
): Promise<Counts | null> {
  const [ni, nj, nk] = size;
  const offsets = [0, ni, ni + nj];
  const places = new Map<number, Int32Array | null>();
  const whole = new WholeLabels();
  const maxValues = Math.min(maxCounted, Math.floor(maxCounts / (ni + nj + nk)));
  for await (const { k, values } of slices) {
    let last = Number.NaN;
    let counts: Int32Array | null | undefined;
    for (let at = 0, j = 0; j < nj; j += 1) {
      for (let i = 0; i < ni; i += 1, at += 1) {
        const value = values[at] as number;
        if (value === 0 || Number.isNaN(value)) continue;
        if (value !== last) {
          last = value;
          counts = places.get(value);
          if (counts === undefined) {
            const label = whole.of(value);
            if (label === null || places.size >= maxValues) return null;
            counts = label === 0 ? null : new Int32Array(ni + nj + nk);
            places.set(value, counts);
          }
        }
        if (!counts) continue;
        const known = counts;
        known[i] = (known[i] as number) + 1;
        known[ni + j] = (known[ni + j] as number) + 1;
        known[ni + nj + k] = (known[ni + nj + k] as number) + 1;
      }
    }
  }
  const weights = size.map((count) => new Float64Array(count)) as [Float64Array, Float64Array, Float64Array];
  const values = [...places]
    .flatMap(([value, counts]) => {
      if (!counts) return [];
      const voxels = counts.subarray(0, ni).reduce((sum, each) => sum + each, 0);
      weights.forEach((weight, axis) => {
        const from = offsets[axis] ?? 0;
        for (let index = 0; index < weight.length; index += 1)
          weight[index] = (weight[index] as number) + (counts[from + index] as number) / voxels;
      });
      return [{ value: Math.round(value), voxels }];
    })
    .sort((a, b) => a.value - b.value);
  return { values, weights, isScaled: whole.isScaled };
}

/**
 * Chooses the slices to show along one axis: the one with most label content, further ones in proportion to their content, and
 * the rest evenly spaced.
 * @param weights label content of each index; null without a segmentation
 * @returns indices in ascending order, and the one with most content
 */
export function chooseSlices(
  count: number,
  wanted: number,
  weights: Float64Array | null,
): { readonly indices: readonly number[]; readonly best: number } {
  const chosen = new Set<number>();
  const take = (index: number) => {
    if (chosen.size < wanted) chosen.add(index);
  };
  const total = weights?.reduce((sum, each) => sum + each, 0) ?? 0;
  let best = Math.floor((count - 1) / 2);
  if (weights && total > 0) {
    best = weights.reduce((most, each, index) => (each > (weights[most] ?? 0) ? index : most), 0);
    const byLabels = Math.ceil((wanted * 2) / 3) - 1;
    take(best);
    let [sum, next] = [0, 0];
    for (let index = 0; index < count && next < byLabels; index += 1) {
      sum += weights[index] ?? 0;
      for (; next < byLabels && sum >= (total * (next + 0.5)) / byLabels; next += 1) take(index);
    }
  } else take(best);
  // Each remaining slice goes into the middle of the widest gap.
  while (chosen.size < Math.min(wanted, count)) {
    const bounds = [-1, ...[...chosen].sort((a, b) => a - b), count];
    let widest = 0;
    const gapAt = (at: number) => (bounds[at + 1] ?? 0) - (bounds[at] ?? 0);
    for (let at = 1; at < bounds.length - 1; at += 1) if (gapAt(at) > gapAt(widest)) widest = at;
    take(Math.floor(((bounds[widest] ?? 0) + (bounds[widest + 1] ?? 0)) / 2));
  }
  const indices = [...chosen].sort((a, b) => a - b);
  return { indices, best: indices.indexOf(best) };
}

/** Colours on grey that people with any colour vision can distinguish (Okabe and Ito, without black). */
const palette: readonly Colour[] = [
  [230, 159, 0],
  [86, 180, 233],
  [0, 158, 115],
  [240, 228, 66],
  [213, 94, 0],
  [204, 121, 167],
  [0, 114, 178],
];

/** The default colour of a label. After the first seven, lighter and darker variants follow. */
export function colourOf(index: number): Colour {
  const round = Math.floor((index - 1) / palette.length);
  const colour = palette[(index - 1) % palette.length] ?? [255, 255, 255];
  const [target, part] = round % 2 === 1 ? [255, 0.45] : [0, round === 0 ? 0 : 0.4];
  return colour.map((each) => Math.round(each + (target - each) * part)) as unknown as Colour;
}

/** Parses an HTML colour, `#e0b088` or `#eb8`; null for anything else. */
export function readColour(text: string): Colour | null {
  const short = /^#([0-9a-f])([0-9a-f])([0-9a-f])$/i.exec(text);
  const digits = short
    ? short.slice(1).map((each) => each + each)
    : /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$/i.exec(text)?.slice(1);
  return digits ? (digits.map((each) => Number.parseInt(each, 16)) as unknown as Colour) : null;
}

/** Replaces label values by their indices; values without an index become 0. */
export function toIndices(values: Voxels, indexOf: ReadonlyMap<number, number>): Uint8Array {
  const indices = new Uint8Array(values.length);
  let [last, index] = [0, 0];
  for (let at = 0; at < values.length; at += 1) {
    const value = values[at] as number;
    if (value !== last) {
      last = value;
      index = indexOf.get(Math.round(value)) ?? 0;
    }
    indices[at] = index;
  }
  return indices;
}
