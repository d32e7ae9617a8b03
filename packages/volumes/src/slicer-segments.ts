import { hexOf } from './cielab.js';
import { type StoredVolume, storedData, storedPlanes } from './stored-voxels.js';
import {
  type Label,
  type Slice,
  type SliceChoice,
  VolumeError,
  type VolumeFile,
  type Voxels,
} from './volume.js';

/** A segment of 3D Slicer: the voxels of one value in one layer. */
interface Segment {
  readonly name: string;
  readonly colour: string | null;
  readonly value: number;
  readonly layer: number;
}

/** Maximum number of segments, more than any segmentation has. */
const maxSegments = 10_000;

/** Converts `0.8 0.2 0.2` to `#rrggbb`. */
function colourOf(words: string | undefined): string | null {
  const parts = (words ?? '').trim().split(/\s+/).map(Number);
  if (parts.length !== 3 || !parts.every((part) => part >= 0 && part <= 1)) return null;
  return hexOf(parts);
}

/** Reads the segments of a header (`Segment0_Name:=liver`); empty for anything but a segmentation. */
function segmentsOf(pairs: ReadonlyMap<string, string>): Segment[] {
  const segments: Segment[] = [];
  for (let at = 0; at < maxSegments; at += 1) {
    const field = (name: string) => pairs.get(`Segment${at}_${name}`)?.trim();
    const name = field('Name') ?? field('ID');
    if (name === undefined) break;
    // Older versions write one layer for each segment.
    const [value, layer] = [Number(field('LabelValue') ?? 1), Number(field('Layer') ?? at)];
    if (!Number.isInteger(value) || value <= 0 || value > 0xffff || !Number.isInteger(layer)) return [];
    segments.push({ name: name || `segment ${at + 1}`, colour: colourOf(field('Color')), value, layer });
  }
  return segments;
}

/**
 * Adds names and colours to a segmentation of 3D Slicer (`.seg.nrrd`); any other volume is returned unchanged. Layers are merged
 * into one volume of labels, with the values in the file if all differ, otherwise with the numbers of the segments.
 */
export function withSegments(
  volume: StoredVolume,
  pairs: ReadonlyMap<string, string>,
): StoredVolume | VolumeFile {
  const segments = segmentsOf(pairs);
  if (segments.length === 0 || volume.components > 1) return volume;
  const { stored, ...header } = volume;
  const isOneLayer = stored.frames === 1;
  if (!isOneLayer && segments.some(({ layer }) => layer >= stored.frames)) return volume;
  const isDistinct = new Set(segments.map(({ value }) => value)).size === segments.length;
  const valueAt = (at: number) => (isDistinct ? (segments[at]?.value ?? 0) : at + 1);
  const labels = segments.map(({ name, colour }, at): Label => ({ value: valueAt(at), name, colour }));
  if (isOneLayer) return isDistinct ? { ...volume, labels } : volume;
  const tables = Array.from({ length: stored.frames }, () => new Map<number, number>());
  for (const [at, { value, layer }] of segments.entries()) tables[layer]?.set(value, valueAt(at));
  const isWide = labels.some(({ value }) => value > 255);
  const length = stored.size[0] * stored.size[1];
  const values = isWide ? new Uint16Array(length) : new Uint8Array(length);
  const put = (plane: Voxels, layer: number) => {
    const table = tables[layer];
    let [last, label] = [0, 0];
    for (let at = 0; at < length; at += 1) {
      const value = plane[at] as number;
      if (value === 0) continue;
      if (value !== last) [last, label] = [value, table?.get(value) ?? (isDistinct ? value : 0)];
      if (label !== 0) values[at] = label;
    }
  };
  return {
    ...header,
    frames: 1,
    labels,
    async *layers() {
      for await (const { k, frame, values: plane } of planesByPlace(volume)) {
        values.fill(0);
        put(plane, frame);
        yield { k, frame, values };
      }
    },
    async *slices({ only, frame: time = 0 }: SliceChoice = {}) {
      if (time !== 0) throw new VolumeError(`${volume.path} holds one segmentation.`);
      for await (const { k, frame, values: plane } of planesByPlace(volume, only)) {
        if (frame === 0) values.fill(0);
        put(plane, frame);
        if (frame === stored.frames - 1) yield { k, values };
      }
    },
  };
}

/** Yields all layers of each slice. Layers that are stored one after another are read into memory. */
async function* planesByPlace(
  { stored }: StoredVolume,
  only?: readonly number[],
): AsyncGenerator<Slice & { readonly frame: number }, void, undefined> {
  const frames = Array.from({ length: stored.frames }, (_, at) => at);
  if (stored.isInterleaved) {
    yield* storedPlanes(stored, frames, only);
    return;
  }
  const data = await storedData(stored);
  const [inSlice, nk] = [stored.size[0] * stored.size[1], stored.size[2]];
  for (const k of only ?? Array.from({ length: nk }, (_, at) => at))
    for (const frame of frames) {
      const from = (frame * nk + k) * inSlice;
      yield { k, frame, values: data.subarray(from, from + inSlice) };
    }
}
