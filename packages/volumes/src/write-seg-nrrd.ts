import { createWriteStream } from 'node:fs';
import path from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { type LabelLayer, namedSegment, placeLayers } from './label-layers.js';
import type { LabelSlice, Placing } from './onto-grid.js';
import { addLabels } from './seg-frames.js';
import type { Segment, WrittenObject } from './segments.js';
import type { Geometry } from './volume.js';
import { writeWhole } from './write.js';
import { NoLabels } from './write-dicom-seg.js';

export interface SegNrrdOptions {
  /** The grid of the file, with its name in messages; by default that of the first layer. */
  readonly grid?: Geometry & { readonly name: string };
  /** Whether a label map on another grid is refused. By default, the nearest voxels are taken. */
  readonly isStrict?: boolean;
}

/** A segment present in its layer. */
interface PlacedSegment extends Segment {
  readonly layer: number;
}

/**
 * Writes label maps as a segmentation of 3D Slicer (`.seg.nrrd`), with names, colours and codes. Each label map is a layer, and
 * labels keep their values. Label maps are read twice, because the names of the labels come before the voxels. The file appears
 * when it is complete.
 * @throws NoLabels; VolumeError for anything but label maps, and with `isStrict` for another grid; the system's errors
 */
export async function writeSegNrrd(
  file: string,
  layers: readonly LabelLayer[],
  { grid, isStrict = false }: SegNrrdOptions = {},
): Promise<Pick<WrittenObject, 'segments' | 'isExact' | 'isByNumber'>> {
  const [first] = layers;
  if (!first) throw new RangeError('A segmentation needs a label map.');
  const target = grid ?? { ...first.mask, name: path.basename(first.mask.path) };
  const { placings, ...how } = placeLayers(layers, target, isStrict);
  const segments: PlacedSegment[] = [];
  for (const [layer, placing] of placings.entries())
    for (const value of await valuesOf(placing))
      segments.push({ ...namedSegment(layers[layer]?.segments ?? [], value), layer });
  if (segments.length === 0) throw new NoLabels(`${path.basename(first.mask.path)} has no labels.`);
  const isWide = segments.some(({ value }) => value > 255);
  const header = headerOf(target, segments, layers.length, isWide);
  return writeWhole(file, async (unfinished) => {
    const out = createWriteStream(unfinished);
    out.write(header);
    await pipeline(
      Readable.from(planes(placings, target, isWide)),
      createGzip({ level: 6, chunkSize: 1 << 20 }),
      out,
    );
    return { segments: segments.map(({ layer: _, ...segment }) => segment), ...how };
  });
}

/** The labels that occur, in ascending order. */
async function valuesOf(placing: Placing): Promise<number[]> {
  const found = new Set<number>();
  for await (const { values } of placing.slices()) addLabels(found, values);
  return [...found].sort((a, b) => a - b);
}

/** Yields the voxels of the file slice by slice, with the values of all layers for each voxel. */
async function* planes(
  placings: readonly Placing[],
  { size }: Geometry,
  isWide: boolean,
): AsyncGenerator<Uint8Array, void, undefined> {
  const [columns, rows, count] = size;
  const length = columns * rows;
  const layers = placings.length;
  const readers = placings.map((placing) => allInOrder(placing.slices(), count, length));
  for (let k = 0; k < count; k += 1) {
    const values = isWide ? new Uint16Array(length * layers) : new Uint8Array(length * layers);
    for (const [layer, reader] of readers.entries()) {
      const { value: plane } = await reader.next();
      if (!plane) throw new RangeError(`Slice ${k} is missing.`);
      if (layers === 1) values.set(plane);
      else for (let at = 0, to = layer; at < length; at += 1, to += layers) values[to] = plane[at] as number;
    }
    yield new Uint8Array(values.buffer);
  }
}

/** Yields all slices of a grid in ascending order. Slices that are read in descending order are buffered in memory. */
async function* allInOrder(
  slices: AsyncGenerator<LabelSlice, void, undefined>,
  count: number,
  length: number,
): AsyncGenerator<LabelSlice['values'], void, undefined> {
  const none = new Uint8Array(length);
  const held: LabelSlice['values'][] = [];
  let next = 0;
  let isDescending = false;
  let before: { readonly k: number; readonly values: LabelSlice['values'] } | null = null;
  for await (const { k, values } of slices) {
    isDescending ||= before !== null && k < before.k;
    if (isDescending) {
      if (before) held[before.k] = before.values;
    } else if (before) {
      for (; next < before.k; next += 1) yield none;
      yield before.values;
      next += 1;
    }
    before = { k, values: values.slice() };
  }
  if (before) held[before.k] = before.values;
  for (; next < count; next += 1) yield held[next] ?? none;
}

const hexPart = (color: string, at: number): string =>
  String(Number((Number.parseInt(color.slice(at, at + 2), 16) / 255).toFixed(6)));

/** Removes the characters that separate lines, fields and codes from a text. */
const inLine = (text: string): string =>
  text
    .replaceAll('\\', '/')
    .replaceAll(/[|~^\p{Cc}]/gu, ' ')
    .trim();

/** Formats a code as 3D Slicer does, in the category that its list of anatomy uses for organs. */
const terminologyOf = ({ code, meaning }: NonNullable<Segment['snomed']>): string =>
  [
    'TerminologyEntry:Segmentation category and type - 3D Slicer General Anatomy list',
    'SCT^123037004^Anatomical Structure',
    `SCT^${inLine(code)}^${inLine(meaning)}`,
    '^^',
    'Anatomic codes - DICOM master list',
    '^^',
    '^^|',
  ].join('~');

function headerOf(
  { size, affine }: Geometry,
  segments: readonly PlacedSegment[],
  layers: number,
  isWide: boolean,
): string {
  const column = (axis: number) =>
    affine.map((row, at) => (at < 2 ? 0 - (row[axis] ?? 0) : (row[axis] ?? 0)));
  const isList = layers > 1;
  const extent = size.map((each) => `0 ${each - 1}`).join(' ');
  const reference = [...affine.flat(), 0, 0, 0, 1, ...size.flatMap((each) => [0, each - 1])];
  const pairs = segments.flatMap(({ value, name, color, snomed, layer }, at) => [
    ...(color === null
      ? []
      : [`Segment${at}_Color:=${[1, 3, 5].map((from) => hexPart(color, from)).join(' ')}`]),
    `Segment${at}_ColorAutoGenerated:=${color === null ? 1 : 0}`,
    // The extent of the whole layer, because 3D Slicer crops a layer to the extent of its first segment.
    `Segment${at}_Extent:=${extent}`,
    `Segment${at}_ID:=Segment_${at + 1}`,
    `Segment${at}_LabelValue:=${value}`,
    `Segment${at}_Layer:=${layer}`,
    `Segment${at}_Name:=${inLine(name) || `Label ${value}`}`,
    `Segment${at}_NameAutoGenerated:=0`,
    ...(snomed === null ? [] : [`Segment${at}_Tags:=${terminologyOf(snomed)}`]),
  ]);
  return [
    'NRRD0004',
    `type: ${isWide ? 'unsigned short' : 'unsigned char'}`,
    `dimension: ${isList ? 4 : 3}`,
    'space: left-posterior-superior',
    `sizes: ${[...(isList ? [layers] : []), ...size].join(' ')}`,
    `space directions: ${[...(isList ? ['none'] : []), ...[0, 1, 2].map((axis) => `(${column(axis).join(',')})`)].join(' ')}`,
    `kinds: ${[...(isList ? ['list'] : []), 'domain', 'domain', 'domain'].join(' ')}`,
    ...(isWide ? ['endian: little'] : []),
    'encoding: gzip',
    `space origin: (${column(3).join(',')})`,
    ...pairs,
    'Segmentation_ContainedRepresentationNames:=Binary labelmap|',
    `Segmentation_ConversionParameters:=Reference image geometry|${reference.join(';')};|Geometry of the image that was segmented.&`,
    'Segmentation_MasterRepresentation:=Binary labelmap',
    'Segmentation_ReferenceImageExtentOffset:=0 0 0',
    '\n',
  ].join('\n');
}
