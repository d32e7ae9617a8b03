import path from 'node:path';
import type { LabelLayer } from './label-layers.js';
import { type LabelSlice, labelReader } from './onto-grid.js';
import type { Segment } from './segments.js';
import { isSameGeometry, type SliceChoice, VolumeError, type VolumeFile } from './volume.js';

/** A mask of one segment, whatever the value of its voxels. */
export interface SingleMask {
  readonly mask: VolumeFile;
  readonly segment: Omit<Segment, 'value'>;
}

/** Several single-segment masks, combined. */
export interface JoinedMasks {
  /** As few label maps as overlaps allow, mostly one. The value of a segment is the number of its mask, from 1. */
  readonly layers: readonly LabelLayer[];
  /** The value of each mask in its own file; 0 for an empty mask. */
  readonly values: readonly number[];
  /** The names of two segments that overlap; null if none do. */
  readonly overlap: readonly [string, string] | null;
}

/**
 * Combines masks on one grid. They are read once in parallel to find overlaps, with one slice of each in memory.
 * @param file the name of the result in messages
 * @throws VolumeError for a mask with several values, or on another grid than the first one
 */
export async function joinMasks(masks: readonly SingleMask[], file: string): Promise<JoinedMasks> {
  const [first] = masks;
  if (!first) throw new RangeError('There is no mask.');
  const nameOf = (each: SingleMask | undefined) => path.basename(each?.mask.path ?? '');
  const other = masks.find(({ mask }) => mask.frames !== 1 || !isSameGeometry(mask, first.mask));
  if (other) throw new VolumeError(`${nameOf(other)} lies on another grid than ${nameOf(first)}.`);
  const values = masks.map(() => 0);
  const overlaps = masks.map(() => new Set<number>());
  for await (const { planes } of inStep(masks)) {
    // The number of the last mask at each voxel, from 1, and the sets of masks that share a voxel.
    const last = new Uint16Array(first.mask.size[0] * first.mask.size[1]);
    const several = new Map<number, readonly number[]>();
    for (const [index, labels] of planes)
      for (let at = 0; at < labels.length; at += 1) {
        const value = labels[at] as number;
        if (value === 0) continue;
        if (value !== values[index]) {
          if (values[index] !== 0)
            throw new VolumeError(`${nameOf(masks[index])} has the values ${values[index]} and ${value}.`);
          values[index] = value;
        }
        const before = last[at] as number;
        last[at] = index + 1;
        if (before === 0) continue;
        const under = several.get(at) ?? [before - 1];
        for (const each of under) overlaps[index]?.add(each);
        several.set(at, [...under, index]);
      }
  }
  const layers: number[][] = [];
  for (const [index, under] of overlaps.entries()) {
    const free = layers.find((members) => !members.some((each) => under.has(each)));
    if (free) free.push(index);
    else layers.push([index]);
  }
  const upper = overlaps.findIndex(({ size }) => size > 0);
  const [one, two] = [masks[[...(overlaps[upper] ?? [])][0] ?? -1], masks[upper]];
  return {
    layers: layers.map((members) => layerOf(masks, members, file)),
    values,
    overlap: one && two ? [one.segment.name, two.segment.name] : null,
  };
}

/** Reads masks in parallel. Yields for each slice the masks that have voxels in it, by index. */
async function* inStep(
  masks: readonly Pick<SingleMask, 'mask'>[],
  choice?: SliceChoice,
): AsyncGenerator<
  { readonly k: number; readonly planes: Map<number, LabelSlice['values']> },
  void,
  undefined
> {
  const readers = masks.map(({ mask }) => ({ slices: mask.slices(choice), labelsOf: labelReader(mask) }));
  let none = Buffer.alloc(0);
  try {
    for (;;) {
      const planes = new Map<number, LabelSlice['values']>();
      let k = 0;
      for (const [index, { slices, labelsOf }] of readers.entries()) {
        const { value: slice } = await slices.next();
        if (!slice) return;
        k = slice.k;
        const labels = labelsOf(slice.values);
        // Most organs occur in few slices.
        const bytes = Buffer.from(labels.buffer, labels.byteOffset, labels.byteLength);
        if (bytes.length !== none.length) none = Buffer.alloc(bytes.length);
        if (!bytes.equals(none)) planes.set(index, labels);
      }
      yield { k, planes };
    }
  } finally {
    for (const { slices } of readers) await slices.return();
  }
}

/** Combines masks that do not overlap into a label map. */
function layerOf(masks: readonly SingleMask[], members: readonly number[], file: string): LabelLayer {
  const chosen = members.flatMap((index) => masks[index] ?? []);
  const segments = chosen.map(({ segment }, at) => ({ ...segment, value: (members[at] ?? 0) + 1 }));
  const { size, affine, format, hasOrientation } = (chosen[0] as SingleMask).mask;
  const mask: VolumeFile = {
    path: file,
    format,
    size,
    affine,
    hasOrientation,
    components: 1,
    frames: 1,
    modality: null,
    labels: segments.map(({ value, name, color }) => ({ value, name, colour: color })),
    async *slices(choice) {
      for await (const { k, planes } of inStep(chosen, choice)) {
        const values = new (masks.length > 255 ? Uint16Array : Uint8Array)(size[0] * size[1]);
        for (const [index, labels] of planes) {
          const number = segments[index]?.value ?? 0;
          for (let at = 0; at < values.length; at += 1) if (labels[at] !== 0) values[at] = number;
        }
        yield { k, values };
      }
    },
  };
  return { mask, segments };
}
