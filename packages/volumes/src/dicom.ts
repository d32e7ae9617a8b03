import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import type { DataSet } from 'dicom-parser';
import { type ByteSource, cutShort, type DicomElements, openBytes, readElements } from './dicom-elements.js';
import { arrange, type Image, type Instance } from './dicom-images.js';
import { readNumber, readNumbers } from './dicom-numbers.js';
import { isInFileOrder, momentOf } from './dicom-order.js';
import { arrayFor, type PixelFormat, pixelFormatOf, readPixels } from './dicom-pixels.js';
import { groupOf, hasGroups, placesOf } from './dicom-places.js';
import { segmentationOf } from './dicom-seg.js';
import { headerOf, isSegmentation } from './headers/dicom-header.js';
import { itemOf, wordsOf } from './headers/dicom-parse.js';
import { isDicomStart } from './headers/dicom-start.js';
import { type Slice, type SliceChoice, VolumeError, type VolumeFile } from './volume.js';

export interface DicomOptions {
  /** Called with a sentence about each file that is ignored because of its name, and about bytes after the pixels. */
  readonly onLeftOut?: (sentence: string) => void;
  /** Stops reading headers. */
  readonly signal?: AbortSignal | undefined;
}

/** Whether a file is DICOM, by how it begins or by its name. */
export const isDicom = (file: string, start: Buffer): boolean =>
  isDicomStart(start) || /\.(dcm|dicom|ima)$/i.test(file);

/** Number of headers read at the same time. */
const atOnce = 8;

/** Files that exporters and file managers leave beside slices. */
const noSlice = /\.(txt|md|json|xml|html?|csv|tsv|pdf|log|ini|inf)$|^Thumbs\.db$/i;

/**
 * Opens DICOM: a directory with the slices of one series, a file with one or several frames, or a segmentation.
 * @throws VolumeError for anything that is not a volume or cannot be read
 */
export async function openDicom(target: string, options: DicomOptions = {}): Promise<VolumeFile> {
  return openSeries(await filesOfDicom(target, options), target, options);
}

/** The files of a series: those in a directory, or a single file. @throws VolumeError if it cannot be read */
export async function filesOfDicom(target: string, options: DicomOptions): Promise<string[]> {
  const unreadable = (error: Error) => {
    throw new VolumeError(`${path.basename(target)} cannot be read (${error.message}).`);
  };
  const entries = await stat(target)
    .then((entry) => (entry.isDirectory() ? readdir(target, { withFileTypes: true }) : null))
    .catch(unreadable);
  if (!entries) return [target];
  const files: string[] = [];
  // Every file counts as a slice unless its name says otherwise, since a slice that is ignored would shift the others.
  for (const entry of entries) {
    if (entry.name.startsWith('.') || entry.name.toUpperCase() === 'DICOMDIR') continue;
    if (entry.isDirectory() || noSlice.test(entry.name))
      options.onLeftOut?.(`${entry.name} is not a slice and is ignored`);
    else files.push(path.join(target, entry.name));
  }
  return files.sort();
}

/**
 * Opens the files of one series as a volume: a file for each slice, or multi-frame files, in any order. Only headers are read.
 * Several images at each position (time points, echoes) become frames of the volume, ordered by their attributes, or by instance
 * number if these do not differ. Nothing is guessed: missing, uneven or duplicate slices and slices without a position are
 * refused. An image that is not a cross section, such as a secondary capture, becomes a volume of its own with `hasOrientation`
 * false.
 * @param target what messages name: the file, or the directory of the files
 * @throws VolumeError for anything that is not a volume or cannot be read
 */
export async function openSeries(
  files: readonly string[],
  target: string,
  options: DicomOptions = {},
): Promise<VolumeFile> {
  const read = await readImages(files, target, options);
  return 'images' in read ? seriesOf(target, read.images).volume : read;
}

/** Like `openSeries`, but also returns the images by position. @throws VolumeError for a segmentation as well */
export async function readSeries(
  files: readonly string[],
  target: string,
  options: DicomOptions = {},
): Promise<{ readonly volume: VolumeFile; readonly places: readonly (readonly Image[])[] }> {
  const read = await readImages(files, target, options);
  if ('images' in read) return seriesOf(target, read.images);
  throw new VolumeError(`${path.basename(target)} is a segmentation: give the series that it was made of.`);
}

/** The images of a series, or the segmentation in a single file. */
async function readImages(
  files: readonly string[],
  target: string,
  options: DicomOptions,
): Promise<VolumeFile | { readonly images: readonly Image[] }> {
  const title = path.basename(path.resolve(target));
  const nameOf = (file: string) => (file === target ? title : path.join(title, path.relative(target, file)));
  const images: Image[] = [];
  for (let at = 0; at < files.length; at += atOnce) {
    options.signal?.throwIfAborted();
    const batch = await Promise.all(
      files.slice(at, at + atOnce).map(async (file) => {
        const name = nameOf(file);
        return { file, name, dicom: await readElements(file, name) };
      }),
    );
    // The elements are dropped, because they hold on to the bytes of the whole header.
    for (const { file, name, dicom } of batch) {
      try {
        if (files.length === 1 && isSegmentation(headerOf(dicom.set)))
          return segmentationOf(file, name, target, dicom);
        images.push(...imagesOf(file, name, dicom, files.length === 1));
      } catch (cause) {
        // The parser throws strings if a value extends beyond the file.
        throw cause instanceof VolumeError ? cause : cutShort(name);
      }
      if (dicom.excess > 0)
        options.onLeftOut?.(`${path.basename(file)}: ${dicom.excess} bytes after the pixel data are ignored`);
    }
  }
  const [first] = images;
  if (!first) throw new VolumeError(`${title} holds no DICOM slices.`);
  const other = images.find(({ instance }) => instance.header.seriesUid !== first.instance.header.seriesUid);
  if (other)
    throw new VolumeError(
      `${title} holds more than one DICOM series (${first.name}, ${other.name}): give each series its own directory.`,
    );
  return { images };
}

/** SOP classes of cross sections. Without a position, these have no order and no size. */
const crossSections = new Set(
  ['2', '2.1', '2.2', '4', '4.1', '4.4', '20', '128', '128.1', '130', '481.2'].map(
    (last) => `1.2.840.10008.5.1.4.1.1.${last}`,
  ),
);

function imagesOf(file: string, name: string, dicom: DicomElements, isOnly: boolean): Image[] {
  const { set, deflatedFrom } = dicom;
  const format = pixelFormatOf(name, dicom);
  // The position is that of the mosaic, not of the slices in it.
  if (wordsOf(set, 'x00080008')?.split('\\').includes('MOSAIC'))
    throw new VolumeError(
      `${name} has its slices side by side in one picture (a mosaic), which is not read here: convert the series with dcm2niix.`,
    );
  const instance: Instance = {
    file,
    name,
    deflatedFrom,
    format,
    header: headerOf(set),
    isInOrder: isInFileOrder(set),
    unit: unitOf(set),
  };
  const { header } = instance;
  // Refuses an invalid instance number, which would count as absent.
  readNumber(set, 'x00200013', name);
  const isSection = crossSections.has(header.sopClass);
  // Checked before memory is allocated for up to a million frames.
  if (format.frames > 1 && isSection && !isPlacedByFrames(set))
    throw new VolumeError(
      `frame 1 of ${name} has no position (Image Position Patient), so the order and distance of its slices are unknown: export the series again with it, or convert it to NIfTI.`,
    );
  const places = placesOf(set, format);
  const isPlaceless =
    isOnly &&
    !hasGroups(set) &&
    !isSection &&
    places.every(({ position, orientation }) => !position && !orientation);
  return places.map((place, index) => ({
    ...place,
    ...(isPlaceless && {
      position: [0, 0, 0],
      orientation: noOrientation,
      pixelSpacing: place.pixelSpacing ?? readNumbers(set, 'x00181164', name) ?? [1, 1],
      thickness: place.thickness ?? 1,
    }),
    ...scalingOf(set, format, index),
    moment: momentOf(set, index, name),
    instance,
    index,
  }));
}

/** Whether a file has elements that can give each frame a position. */
const isPlacedByFrames = (set: DataSet): boolean =>
  hasGroups(set) || Boolean(set.elements.x3004000c ?? set.elements.x00540022);

/** The unit of the values: Hounsfield units for CT, unless RescaleType names another unit. */
function unitOf(set: DataSet): 'HU' | null {
  const type = wordsOf(groupOf(set, 0, 'x00289145'), 'x00281054');
  return wordsOf(set, 'x00080060') === 'CT' && (type === null || type === 'HU') ? 'HU' : null;
}

/** The default orientation of images without one; compared by identity. */
const noOrientation: readonly number[] = [1, 0, 0, 0, 1, 0];

function scalingOf(set: DataSet, { components, name }: PixelFormat, index: number) {
  if (components > 1) return { slope: 1, intercept: 0 };
  const transformation = groupOf(set, index, 'x00289145');
  if (itemOf(set, 'x00283000'))
    throw new VolumeError(
      `${name} has its values in a table (Modality LUT Sequence), which is not read: convert it to NIfTI with a program that applies it.`,
    );
  return {
    slope: readNumber(transformation, 'x00281053', name) ?? readNumber(set, 'x3004000e', name) ?? 1,
    intercept: readNumber(transformation, 'x00281052', name) ?? 0,
  };
}

function seriesOf(target: string, images: readonly Image[]) {
  const [first] = images;
  if (!first) throw new VolumeError(`${path.basename(target)} holds no DICOM slices.`);
  const { affine, places } = arrange(images);
  const { format, header } = first.instance;
  const isInverted = isInvertedFormat(format);
  const odd = images.find(
    ({ instance }) =>
      instance.format.components !== format.components || isInvertedFormat(instance.format) !== isInverted,
  );
  if (odd)
    throw new VolumeError(
      `${first.name} and ${odd.name} differ in their colours: give each series its own directory, without localizers.`,
    );
  const frames = places[0]?.length ?? 1;
  const hasOrientation = first.orientation !== noOrientation;
  const plane = format.rows * format.columns * format.components;
  const isNative = images.every(
    (image) => image.slope === 1 && image.intercept === 0 && isSameType(format, image.instance.format),
  );
  const slices = async function* (choice: SliceChoice = {}): AsyncGenerator<Slice, void, undefined> {
    const { only = places.keys(), frame = 0 } = choice;
    // The last file stays open, because it may contain the next image as well.
    let opened: { readonly file: string; readonly source: ByteSource } | undefined;
    const scaled = isNative ? null : new Float32Array(plane);
    try {
      for (const k of only) {
        const image = places[k]?.[frame];
        if (!image) throw new RangeError(`There is no slice ${k} of frame ${frame} in ${target}.`);
        const { file, deflatedFrom, format: own } = image.instance;
        if (opened?.file !== file) {
          await opened?.source[Symbol.asyncDispose]();
          opened = undefined;
          opened = { file, source: await openBytes(file, deflatedFrom) };
        }
        const values = await readPixels(opened.source, own, image.index);
        if (!scaled) yield { k, values };
        else {
          const { slope, intercept } = image;
          for (let at = 0; at < plane; at += 1) scaled[at] = (values[at] ?? 0) * slope + intercept;
          yield { k, values: scaled };
        }
      }
    } finally {
      await opened?.source[Symbol.asyncDispose]();
    }
  };
  const volume: VolumeFile = {
    format: 'DICOM',
    path: target,
    size: [format.columns, format.rows, places.length],
    affine,
    hasOrientation,
    components: format.components,
    frames,
    modality: header.modality,
    unit: images.every(({ instance }) => instance.unit === 'HU') ? 'HU' : null,
    isInverted,
    labels: null,
    slices,
  };
  return { volume, places };
}

/** Whether the lowest value is white. */
const isInvertedFormat = ({ photometric }: PixelFormat): boolean => photometric === 'MONOCHROME1';

const isSameType = (one: PixelFormat, other: PixelFormat): boolean =>
  arrayFor(one, 0).constructor === arrayFor(other, 0).constructor;
