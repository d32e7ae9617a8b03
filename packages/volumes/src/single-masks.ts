import path from 'node:path';
import type { LabelLayer } from './label-layers.js';
import { labelReader } from './onto-grid.js';
import type { Segment } from './segments.js';
import {
  isSameGeometry,
  type Label,
  type SliceChoice,
  VolumeError,
  type VolumeFile,
  type Voxels,
} from './volume.js';

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
  const volumes = masks.map(({ mask }) => mask);
  const readers = volumes.map(labelReader);
  for await (const { planes } of inStep(volumes)) {
    // The number of the last mask at each voxel, from 1, and the sets of masks that share a voxel.
    const last = new Uint16Array(first.mask.size[0] * first.mask.size[1]);
    const several = new Map<number, readonly number[]>();
    for (const [index, plane] of planes) {
      const labels = readers[index]?.(plane) ?? [];
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
    layers: layers.map((members) => {
      const segments = members.map((index) => ({
        ...(masks[index] as SingleMask).segment,
        value: index + 1,
      }));
      const labels = segments.map(({ value, name, color }) => ({ value, name, colour: color }));
      const own = members.map((index) => volumes[index] as VolumeFile);
      return { mask: labelMapOf(own, labels, file), segments };
    }),
    values,
    overlap: one && two ? [one.segment.name, two.segment.name] : null,
  };
}

/** Reads masks in parallel. Yields for each slice the masks that have voxels in it, by index. */
async function* inStep(
  masks: readonly VolumeFile[],
  choice?: SliceChoice,
): AsyncGenerator<{ readonly k: number; readonly planes: Map<number, Voxels> }, void, undefined> {
  const readers = masks.map((mask) => mask.slices(choice));
  let none = Buffer.alloc(0);
  try {
    for (;;) {
      const planes = new Map<number, Voxels>();
      let k = 0;
      for (const [index, slices] of readers.entries()) {
        const { value: slice } = await slices.next();
        if (!slice) return;
        k = slice.k;
        // Most organs occur in few slices.
        const { buffer, byteOffset, byteLength } = slice.values;
        if (byteLength !== none.length) none = Buffer.alloc(byteLength);
        if (!Buffer.from(buffer, byteOffset, byteLength).equals(none)) planes.set(index, slice.values);
      }
      yield { k, planes };
    }
  } finally {
    for (const slices of readers) await slices.return();
  }
}

/**
 * Combines masks on one grid into a label map. A voxel of several masks has the last of their labels.
 * @param labels the labels of the masks, in ascending order
 * @param file the path of the label map
 */
export function labelMapOf(masks: readonly VolumeFile[], labels: readonly Label[], file: string): VolumeFile {
  const [first] = masks;
  if (!first) throw new RangeError('There is no mask.');
  const { size, affine, format, hasOrientation } = first;
  const ArrayType = (labels.at(-1)?.value ?? 0) > 255 ? Uint16Array : Uint8Array;
  async function* slicesOf(from: number, to?: number, choice?: SliceChoice) {
    for await (const { k, planes } of inStep(masks.slice(from, to), choice)) {
      const values = new ArrayType(size[0] * size[1]);
      for (const [index, plane] of planes) {
        const label = labels[from + index]?.value ?? 0;
        for (let at = 0; at < values.length; at += 1) if (Math.round(plane[at] as number)) values[at] = label;
      }
      yield { k, values };
    }
  }
  return {
    ...{ path: file, format, size, affine, hasOrientation, labels },
    ...{ components: 1, frames: 1, modality: null },
    slices: (choice) => slicesOf(0, masks.length, choice),
    async *layers() {
      for (const index of masks.keys()) yield* slicesOf(index, index + 1);
    },
  };
}
