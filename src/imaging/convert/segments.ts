import type { LabelLayer, Segment, VolumeFile } from '@remote-app/volumes';
import { organKey, type Terminology } from '../matching/index.js';
import { readColour } from '../pictures/index.js';

/** Converts `#eb8` or `#e0b088` to `#rrggbb`; null for anything else. */
function hexOf(color: string | undefined | null): string | null {
  const parts = color ? readColour(color) : null;
  return parts && `#${parts.map((part) => part.toString(16).padStart(2, '0')).join('')}`;
}

/** The names of a volume's labels: first those of the app, then those of the file. The first name of a value counts. */
function segmentsOf(volume: VolumeFile, terminology: Terminology): Segment[] {
  const own = (volume.labels ?? []).map(({ value, name, colour }): Segment => {
    return { value, name, color: hexOf(colour), snomed: null };
  });
  const said = Object.entries(terminology).map(([value, { name, color, snomed }]): Segment => {
    return { value: Number(value), name, color: hexOf(color), snomed: snomed ?? null };
  });
  return [...said, ...own];
}

/** Label maps. Segments within one of them do not overlap. */
export interface Layers {
  readonly layers: readonly LabelLayer[];
  /** The names of two segments that overlap; null if none do. */
  readonly overlap: readonly [string, string] | null;
}

/** Splits a label map into layers: several if the app names regions, because a voxel may belong to more than one of them. */
export function layersOf(volume: VolumeFile, terminology: Terminology): Layers {
  const segments = segmentsOf(volume, terminology);
  const regions = segments.flatMap((segment) => {
    const { values } = terminology[segment.value] ?? {};
    return values ? [{ segment, values }] : [];
  });
  if (regions.length === 0) return { layers: [{ mask: volume, segments }], overlap: null };
  const ofRegions = new Set(regions.flatMap(({ segment, values }) => [segment.value, ...values]));
  const others = segments.filter(({ value }) => !ofRegions.has(value));
  const all = [...regions, ...others.map((segment) => ({ segment, values: [segment.value] }))];
  let overlap: Layers['overlap'] = null;
  const groups: { segment: Segment; values: readonly number[] }[][] = [];
  for (const each of all) {
    const isApart = (other: { values: readonly number[] }) =>
      !other.values.some((value) => each.values.includes(value));
    const group = groups.find((members) => members.every(isApart));
    if (group) group.push(each);
    else groups.push([each]);
    const other = all.slice(0, all.indexOf(each)).find((one) => !isApart(one));
    if (other) overlap ??= [other.segment.name, each.segment.name];
  }
  return { layers: groups.map((members) => layerOf(volume, members)), overlap };
}

/** A layer with some segments of a label map. Each segment covers all voxels that have one of its values. */
function layerOf(
  volume: VolumeFile,
  members: readonly { readonly segment: Segment; readonly values: readonly number[] }[],
): LabelLayer {
  const labelOf = new Map(
    members.flatMap(({ segment, values }) => values.map((each) => [each, segment.value])),
  );
  const { path, format, size, affine, hasOrientation } = volume;
  const mask: VolumeFile = {
    ...{ path, format, size, affine, hasOrientation, components: 1, frames: 1, modality: null, labels: null },
    async *slices(choice) {
      for await (const { k, values } of volume.slices(choice)) {
        const labels = new Uint16Array(values.length);
        for (let at = 0; at < values.length; at += 1)
          labels[at] = labelOf.get(Math.round(values[at] as number)) ?? 0;
        yield { k, values: labels };
      }
    },
  };
  return { mask, segments: members.map(({ segment }) => segment) };
}

/** The app's label with the name of a file; null if there is none. */
export function segmentNamed(name: string, terminology: Terminology): Omit<Segment, 'value'> | null {
  const said = Object.values(terminology).find((each) => organKey(each.name) === organKey(name));
  return said ? { name: said.name, color: hexOf(said.color), snomed: said.snomed ?? null } : null;
}
