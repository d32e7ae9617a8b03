import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { ContourFinder, partsOfPixel } from './contours.js';
import {
  codeItem,
  dateOf,
  derivedObject,
  derivedUid,
  fileReferences,
  imageReference,
  longString,
  reference,
  timeOf,
} from './derived-object.js';
import {
  type DicomElement,
  decimalString,
  elementStart,
  encodeElements,
  encodeItem,
  fileStart,
  itemStart,
  sequence,
} from './dicom-write.js';
import { syntaxes } from './headers/dicom-walk.js';
import { type LabelLayer, namedSegment, placeLayers } from './label-layers.js';
import { requireLabels } from './seg-frames.js';
import type { Maker, Segment, SourceImage, SourceSeries, WrittenObject } from './segments.js';
import { VolumeError } from './volume.js';
import { writeWhole } from './write.js';
import { NoLabels } from './write-dicom-seg.js';

export interface RtStructOptions {
  readonly maker: Maker;
  /** Whether a label map on another grid is refused. By default, the nearest voxels are taken. */
  readonly isStrict?: boolean;
}

const structureSetClass = '1.2.840.10008.5.1.4.1.1.481.3';

/** Detached Study Management. It is retired, but structure sets still use it as the class of a study. */
const studyClass = '1.2.840.10008.3.1.2.3.1';

/** A segment present in the label map, with its encoded contours. */
interface Region {
  readonly segment: Segment;
  readonly contours: readonly Buffer[];
}

/** Maximum number of bytes of contours, which are held in memory. A whole body with a hundred organs needs a third of this. */
const maxContours = 2 ** 30;

/**
 * Writes label maps as an RT Structure Set in the study of a series: a region for each label that occurs, with closed planar
 * contours in the planes of the images. Holes are connected to the contour around them (keyholes), which works in programs that
 * combine contours by even-odd and in those that unite them. The UIDs derive as in a segmentation: the same result is the same
 * object. The file appears when it is complete. Needs the memory of all contours, and of a few slices.
 * @param layers of one grid; they may overlap each other
 * @throws NoLabels; VolumeError for anything but label maps, and with `isStrict` for another grid; the system's errors
 */
export async function writeRtStruct(
  file: string,
  layers: readonly LabelLayer[],
  source: SourceSeries,
  { maker, isStrict = false }: RtStructOptions,
): Promise<WrittenObject> {
  const { placings, isExact, isByNumber } = placeLayers(layers, source, isStrict);
  const seriesUid = derivedUid('RTSTRUCT', source.seriesUid, maker.app ?? '', maker.name);
  return writeWhole(file, async (unfinished) => {
    const digest = createHash('sha256');
    const textOf = contourText(source);
    const regions: Region[] = [];
    let bytes = 0;
    for (const [at, placing] of placings.entries()) {
      const found = new Map<number, Buffer[]>();
      const finder = new ContourFinder(source.size[0], source.size[1]);
      for await (const { k, values } of placing.slices()) {
        const images = source.slices[k] ?? [];
        const [image] = images;
        if (!image) throw new RangeError(`${source.name} has no slice ${k}.`);
        for (const { value, points } of finder.find(values)) {
          const item = contourItem(images, points.length / 2, textOf(image, points));
          const contours = found.get(value) ?? [];
          contours.push(item);
          found.set(value, contours);
          requireLabels(found);
          digest.update(item);
          bytes += item.length;
          if (bytes > maxContours)
            throw new VolumeError(
              `The contours of ${maker.name} take more than 1 GiB: convert it to another format.`,
            );
        }
      }
      for (const [value, contours] of [...found].sort(([one], [other]) => one - other))
        regions.push({ segment: namedSegment(layers[at]?.segments ?? [], value), contours });
    }
    if (regions.length === 0) throw new NoLabels(`${maker.name} has no labels.`);
    const segments = regions.map(({ segment }) => segment);
    const instanceUid = derivedUid(seriesUid, digest.digest('hex'), JSON.stringify(segments));
    const { altered, ...around } = aroundContours(source, { segments, seriesUid, instanceUid }, maker);
    const start = { syntax: syntaxes.implicit, sopClass: structureSetClass, sopInstance: instanceUid };
    await writeFile(unfinished, parts(fileStart(start), around, regions), { flag: 'wx' });
    return { seriesUid, instanceUid, isExact, isByNumber, segments, altered };
  });
}

/** Coordinates are rounded to this fraction of a pixel, far less than the distance of a contour from any centre. */
const precision = 1e-5;

/** Returns a function that formats contour points on an image as decimal strings in mm, in LPS+: x, y and z of each point. */
export function contourText({ orientation, pixelSpacing, size }: SourceSeries) {
  const [betweenRows = 1, betweenColumns = 1] = pixelSpacing;
  const scale = 10 ** Math.max(3, Math.ceil(-Math.log10(Math.min(betweenRows, betweenColumns) * precision)));
  const farthest = partsOfPixel * Math.max(size[0], size[1]);
  // A component that contributes less than the last digit at the far end of the image is a rounding error of the orientation.
  const step = (value: number) => (Math.abs(value) * farthest * scale < 0.5 ? 0 : value);
  /** The change of each coordinate along x and y of a point, which are in fractions of a pixel. */
  const steps = [0, 1, 2].map((axis) => ({
    byX: step(((orientation[axis] ?? 0) * betweenColumns) / partsOfPixel),
    byY: step(((orientation[3 + axis] ?? 0) * betweenRows) / partsOfPixel),
  }));
  return ({ position }: Pick<SourceImage, 'position'>, points: Int32Array): string => {
    const texts: string[] = [];
    for (let at = 0; at < points.length; at += 2)
      for (const [axis, { byX, byY }] of steps.entries()) {
        const start = position[axis] ?? 0;
        const value = start + byX * (points[at] as number) + byY * (points[at + 1] as number);
        // The coordinate perpendicular to an axial plane is exactly that of the image, because some programs compare these texts.
        const isConstant = byX === 0 && byY === 0;
        texts.push(decimalString(isConstant ? start : Math.round(value * scale) / scale));
      }
    return texts.join('\\');
  };
}

const contourItem = (images: readonly SourceImage[], count: number, data: string): Buffer =>
  encodeItem(
    [
      ['30060016', 'SQ', images.map(imageReference)],
      ['30060042', 'CS', 'CLOSED_PLANAR'],
      ['30060046', 'IS', String(count)],
      ['30060050', 'DS', data],
    ],
    syntaxes.implicit,
  );

/** The elements before and after the contours, and the texts that lost characters. */
function aroundContours(
  source: SourceSeries,
  { segments, seriesUid, instanceUid }: Pick<WrittenObject, 'segments' | 'seriesUid' | 'instanceUid'>,
  maker: Maker,
) {
  const label = maker.app ?? 'remote-app';
  const { elements, text, altered } = derivedObject(source, {
    sopClass: structureSetClass,
    seriesUid,
    instanceUid,
    modality: 'RTSTRUCT',
    maker,
    texts: segments.flatMap(({ name, snomed }) => [name, snomed?.meaning ?? '']),
  });
  const series = sequence('30060014', [
    ['0020000e', 'UI', source.seriesUid],
    sequence('30060016', ...fileReferences(source.slices.flat())),
  ]);
  const study = sequence('30060012', [...reference(studyClass, source.studyUid), series]);
  const before: DicomElement[] = [
    // A structure set has its own date and time instead of a content date and time.
    ...elements.filter(([tag]) => tag !== '00080023' && tag !== '00080033'),
    // OperatorsName
    ['00081070', 'PN', ''],
    ['30060002', 'SH', text([...longString(label)].slice(0, 16).join(''))],
    ['30060008', 'DA', dateOf(maker.madeAt)],
    ['30060009', 'TM', timeOf(maker.madeAt)],
    sequence('30060010', [['00200052', 'UI', source.frameOfReferenceUid], study]),
    sequence(
      '30060020',
      ...segments.map(({ name, value }, at): DicomElement[] => [
        ['30060022', 'IS', String(at + 1)],
        ['30060024', 'UI', source.frameOfReferenceUid],
        ['30060026', 'LO', text(longString(name), `Label ${value}`)],
        ['30060036', 'CS', 'AUTOMATIC'],
      ]),
    ),
  ];
  const after: DicomElement[] = [
    sequence(
      '30060080',
      ...segments.map(({ snomed }, at): DicomElement[] => [
        ['30060082', 'IS', String(at + 1)],
        ['30060084', 'IS', String(at + 1)],
        ...(snomed
          ? [sequence('30060086', codeItem(snomed.code, 'SCT', text(snomed.meaning, snomed.code)))]
          : []),
        ['300600a4', 'CS', ''],
        ['300600a6', 'PN', ''],
      ]),
    ),
    ['300e0002', 'CS', 'UNAPPROVED'],
  ];
  return { before, after, altered };
}

/** Red, green and blue of `#rrggbb`, as decimal strings. */
const colourOf = (color: string): string[] =>
  [1, 3, 5].map((at) => String(Number.parseInt(color.slice(at, at + 2), 16)));

/** The parts of the file: what comes before the contours, the contours of each region, and what follows them. */
function* parts(
  start: Buffer,
  { before, after }: Pick<ReturnType<typeof aroundContours>, 'before' | 'after'>,
  regions: readonly Region[],
): Generator<Buffer> {
  const encode = (elements: readonly DicomElement[]) => encodeElements(elements, syntaxes.implicit);
  const sequenceStart = (tag: string, items: readonly Buffer[]) =>
    elementStart(tag, 'SQ', lengthOf(items), syntaxes.implicit);
  const items = regions.map(({ segment: { color }, contours }, at) => {
    const item = [
      encode(color === null ? [] : [['3006002a', 'IS', colourOf(color)]]),
      sequenceStart('30060040', contours),
      ...contours,
      encode([['30060084', 'IS', String(at + 1)]]),
    ];
    return [itemStart(lengthOf(item)), ...item];
  });
  yield Buffer.concat([start, encode(before), sequenceStart('30060039', items.flat())]);
  for (const item of items) yield Buffer.concat(item);
  yield encode(after);
}

const lengthOf = (all: readonly Buffer[]): number => all.reduce((sum, { length }) => sum + length, 0);
