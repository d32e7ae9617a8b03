import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import path from 'node:path';
import { cieLabOf } from './cielab.js';
import {
  codeItem,
  decimals,
  derivedObject,
  derivedUid,
  longString,
  positionOf,
  referencedSeries,
  sourceImages,
  spacingBetween,
} from './derived-object.js';
import {
  type DicomElement,
  decimalString,
  elementStart,
  encodeElements,
  fileStart,
  itemStart,
  sequence,
} from './dicom-write.js';
import { type LabelLayer, namedSegment, placeLayers } from './label-layers.js';
import type { PatientAndStudy } from './patient-study.js';
import { SegFrames } from './seg-frames.js';
import type { Maker, Segment, SourceSeries, WrittenObject } from './segments.js';
import { VolumeError } from './volume.js';
import { writeWhole } from './write.js';

/** The error for a label map without labels, from which nothing can be written. */
export class NoLabels extends VolumeError {}

export interface SegOptions {
  readonly maker: Maker;
  /** Whether each frame contains all labels of a slice (LABELMAP). Few viewers support this, and it holds only one layer. */
  readonly isLabelMap?: boolean;
  /** Whether a label map on another grid is refused. By default, the nearest voxels are taken. */
  readonly isStrict?: boolean;
}

/**
 * Writes label maps as a DICOM SEG on the grid of their series, in its study. Each segment has a frame for every slice in which it
 * has voxels, with a reference to the images at that position. Every label that occurs becomes a segment. Segments are numbered
 * 1, 2, 3 in the order of layers and values, as the standard demands; in a LABELMAP, their numbers are the values.
 * The UIDs derive from the series, the maker and the content: the same result is the same object, and a new result under the
 * same name is a new object in the same series. The file appears when it is complete.
 * @param layers may overlap each other
 * @throws NoLabels; VolumeError for anything but label maps, and with `isStrict` for another grid; the system's errors
 */
export async function writeDicomSeg(
  file: string,
  layers: readonly LabelLayer[],
  source: SourceSeries,
  options: SegOptions,
): Promise<WrittenObject> {
  const { isLabelMap = false, isStrict = false } = options;
  const [first] = layers;
  if (!first || (isLabelMap && layers.length > 1)) throw new RangeError('A LABELMAP has one layer.');
  const { placings, ...how } = placeLayers(layers, source, isStrict);
  const slices = placings.map((placing) => placing.slices());
  return writeWhole(file, async (unfinished) => {
    await using frames = await SegFrames.collect(`${unfinished}.frames`, slices, isLabelMap);
    const labels = layers.flatMap(({ segments }, layer) =>
      [...(frames.values[layer] ?? [])]
        .sort((one, other) => one - other)
        .map((value) => ({ layer, segment: namedSegment(segments, value) })),
    );
    if (labels.length === 0) throw new NoLabels(`${path.basename(first.mask.path)} has no labels.`);
    const segments = labels.map(({ segment }) => segment);
    const written = { ...identityOf(frames, segments, source, options), ...how };
    const numbers = layers.map(() => new Map<number, number>());
    for (const [at, { layer, segment }] of labels.entries())
      numbers[layer]?.set(segment.value, numberOf(written.segments, at, isLabelMap));
    const { start, altered } = startOf(source, written, frames, options);
    await using target = await open(unfinished, 'wx');
    await target.appendFile(start);
    await target.appendFile(frameGroups(source, numbers, frames, isLabelMap));
    const isOdd = frames.length % 2 === 1;
    const vr = frames.bitsAllocated === 16 ? 'OW' : 'OB';
    await target.appendFile(elementStart('7fe00010', vr, frames.length + Number(isOdd)));
    await frames.copyTo(target);
    if (isOdd) await target.appendFile(Buffer.alloc(1));
    return { ...written, altered };
  });
}

type Identity = Pick<WrittenObject, 'segments' | 'seriesUid' | 'instanceUid'>;

function identityOf(
  frames: SegFrames,
  segments: readonly Segment[],
  { seriesUid: source }: SourceSeries,
  { maker, isLabelMap = false }: SegOptions,
): Identity {
  const seriesUid = derivedUid('DICOM SEG', source, maker.app ?? '', maker.name, isLabelMap ? 1 : 0);
  const names = createHash('sha256').update(JSON.stringify(segments)).digest('hex');
  return { segments, seriesUid, instanceUid: derivedUid(seriesUid, frames.digest(), names) };
}

/** The number of the segment of a label. */
const numberOf = (segments: readonly Segment[], at: number, isLabelMap: boolean): number =>
  isLabelMap ? (segments[at]?.value ?? 0) : at + 1;

/** The dimensions that index frames, as other writers of segmentations use them. */
const dimensions = {
  segment: { pointer: '0062000b', group: '0062000a', title: 'ReferencedSegmentNumber' },
  position: { pointer: '00200032', group: '00209113', title: 'ImagePositionPatient' },
} as const;

/** Everything before the functional groups of frames, and the texts that lost characters. */
function startOf(
  source: SourceSeries,
  { segments, seriesUid, instanceUid }: Identity,
  frames: SegFrames,
  { maker, isLabelMap = false }: SegOptions,
): { readonly start: Buffer; readonly altered: readonly string[] } {
  const sopClass = `1.2.840.10008.5.1.4.1.1.66.${isLabelMap ? 7 : 4}`;
  const bits = frames.bitsAllocated;
  const names = segments.flatMap(({ name, snomed }) => [name, snomed?.meaning ?? '']);
  const { elements, text, altered } = derivedObject(source, {
    sopClass,
    seriesUid,
    instanceUid,
    modality: 'SEG',
    maker,
    texts: names,
  });
  const indexed = [...(isLabelMap ? [] : [dimensions.segment]), dimensions.position];
  const organization = derivedUid(instanceUid, 'dimensions');
  const between = spacingBetween(source);
  const start = Buffer.concat([
    fileStart({ sopClass, sopInstance: instanceUid }),
    encodeElements([
      ...elements,
      ['00080008', 'CS', ['DERIVED', 'PRIMARY']],
      referencedSeries(source),
      sequence('00209221', [['00209164', 'UI', organization]]),
      sequence(
        '00209222',
        ...indexed.map(({ pointer, group, title }): DicomElement[] => [
          ['00209164', 'UI', organization],
          ['00209165', 'AT', pointer],
          ['00209167', 'AT', group],
          ['00209421', 'LO', title],
        ]),
      ),
      ['00280002', 'US', 1],
      ['00280004', 'CS', 'MONOCHROME2'],
      ['00280008', 'IS', String(frames.frames.length)],
      ['00280010', 'US', source.size[1]],
      ['00280011', 'US', source.size[0]],
      ['00280100', 'US', bits],
      ['00280101', 'US', bits],
      ['00280102', 'US', bits - 1],
      ['00280103', 'US', 0],
      ...(isLabelMap ? [['00280120', 'US', 0] as const] : []),
      ...source.lossy,
      ['00620001', 'CS', isLabelMap ? 'LABELMAP' : 'BINARY'],
      sequence(
        '00620002',
        ...segments.map((each, at) => segmentItem(each, numberOf(segments, at, isLabelMap), maker, text)),
      ),
      ['00700080', 'CS', 'SEGMENTATION'],
      ['00700081', 'LO', text(longString(maker.name))],
      ['00700084', 'PN', ''],
      sequence('52009229', [
        sequence('00209116', [['00200037', 'DS', decimals(source.orientation)]]),
        sequence('00289110', [
          ['00180050', 'DS', decimalString(source.thickness || between)],
          ['00180088', 'DS', decimalString(between)],
          ['00280030', 'DS', decimals(source.pixelSpacing)],
        ]),
      ]),
    ]),
  ]);
  return { start, altered };
}

/** The category and type of a segment without a code, as in 3D Slicer. */
const tissue = codeItem('85756007', 'SCT', 'Tissue');
const anatomicalStructure = codeItem('123037004', 'SCT', 'Anatomical Structure');

function segmentItem(
  { value, name, color, snomed }: Segment,
  number: number,
  { app }: Maker,
  text: PatientAndStudy['text'],
): DicomElement[] {
  const lab = color === null ? null : cieLabOf(color);
  return [
    ['00620003', 'SQ', [snomed ? anatomicalStructure : tissue]],
    ['00620004', 'US', number],
    ['00620005', 'LO', text(name, `Label ${value}`)],
    ['00620006', 'ST', `Label ${value}`],
    // Without an app, a person may have drawn it.
    ['00620008', 'CS', app === null ? 'SEMIAUTOMATIC' : 'AUTOMATIC'],
    ['00620009', 'LO', text(longString(app ?? 'unknown'))],
    ...(lab ? [['0062000d', 'US', lab] as const] : []),
    ['0062000f', 'SQ', [snomed ? codeItem(snomed.code, 'SCT', text(snomed.meaning, snomed.code)) : tissue]],
  ];
}

const none = Buffer.alloc(0);

/** PerFrameFunctionalGroupsSequence. @param numbers of segments, by layer and value */
function frameGroups(
  source: SourceSeries,
  numbers: readonly ReadonlyMap<number, number>[],
  { frames }: SegFrames,
  isLabelMap: boolean,
): Buffer {
  const occupied = [...new Set(frames.map(({ k }) => k))].sort((one, other) => one - other);
  // Elements shared by the frames of a slice are encoded once.
  const shared = new Map(
    occupied.map((k, at) => [
      k,
      {
        rank: at + 1,
        derivation: encodeElements([
          sequence('00089124', [
            sourceImages(source.slices[k] ?? []),
            sequence('00089215', codeItem('113076', 'DCM', 'Segmentation')),
          ]),
        ]),
        // The position on the even grid of the series: scanners round positions, but readers expect equal steps.
        position: encodeElements([
          sequence('00209113', [['00200032', 'DS', decimals(positionOf(source, k))]]),
        ]),
      },
    ]),
  );
  const items = frames.map(({ k, value, layer = 0 }) => {
    const { rank = 0, derivation = none, position = none } = shared.get(k) ?? {};
    const number = numbers[layer]?.get(value) ?? 0;
    const indices = [...(isLabelMap ? [] : [number]), rank];
    const groups = Buffer.concat([
      derivation,
      encodeElements([sequence('00209111', [['00209157', 'UL', indices]])]),
      position,
      encodeElements(isLabelMap ? [] : [sequence('0062000a', [['0062000b', 'US', number]])]),
    ]);
    return Buffer.concat([itemStart(groups.length), groups]);
  });
  const length = items.reduce((sum, item) => sum + item.length, 0);
  return Buffer.concat([elementStart('52009230', 'SQ', length), ...items]);
}
