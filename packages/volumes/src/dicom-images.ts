import { type Moment, orderByMoment } from './dicom-order.js';
import type { PixelFormat } from './dicom-pixels.js';
import { gridOf, type Place } from './dicom-places.js';
import { evenStep, isOnLine, roundingOf } from './dicom-steps.js';
import type { DicomHeader } from './headers/dicom-header.js';
import { stackOf } from './headers/dicom-stack.js';
import { type Affine, VolumeError } from './volume.js';

/** A file whose header has been read. */
export interface Instance {
  readonly file: string;
  readonly name: string;
  readonly deflatedFrom: number | null;
  readonly format: PixelFormat;
  readonly header: DicomHeader;
  /** Whether its frames are stored in order of time. */
  readonly isInOrder: boolean;
  readonly unit: 'HU' | null;
}

/** One image of a series: a file, or a frame of one. */
export interface Image extends Place {
  readonly instance: Instance;
  /** Index of the frame in its file, from 0. */
  readonly index: number;
  readonly slope: number;
  readonly intercept: number;
  readonly moment: Moment;
}

/** Groups images by position, in order along the normal, and computes the affine of their volume. @throws VolumeError */
export function arrange(images: readonly Image[]): { affine: Affine; places: Image[][] } {
  const { depthOf, affineOf } = gridOf(images);
  const places = stackOf(images, depthOf).map((level) => level.images);
  for (const place of places) requirePlane(place);
  const count = places[0]?.length ?? 0;
  const uneven = places.find((place) => place.length !== count);
  if (uneven) throw samePlace(count > uneven.length ? (places[0] ?? []) : uneven);
  for (const place of places) refuseCopies(place);
  const order = orderByMoment(places);
  for (const place of places) inTime(place, order);
  const firsts = places.flatMap((place) => place[0] ?? []);
  return { places, affine: affineOf(firsts, evenStep(firsts, depthOf)) };
}

const samePlace = ([one, other]: readonly Image[]): VolumeError =>
  new VolumeError(
    `${one?.name} and ${other?.name} lie at the same place: take out the copy, or give each echo or time point its own directory.`,
  );

/** Refuses images that lie side by side at one depth. */
function requirePlane(images: readonly Image[]): void {
  const [first] = images;
  if (!first) return;
  const isBeside = (image: Image) => {
    const rounding = roundingOf([first, image]).across;
    return !isOnLine({ first, way: [], step: 1, rounding }, image, 0);
  };
  const beside = images.find((image) => image.instance !== first.instance && isBeside(image));
  if (beside)
    throw new VolumeError(
      `${first.name} and ${beside.name} lie beside each other in one plane: give each series its own directory.`,
    );
}

function refuseCopies(images: readonly Image[]): void {
  const known = new Map<string, Image>();
  for (const image of images) {
    const { instanceUid } = image.instance.header;
    if (instanceUid === null) continue;
    const before = known.get(instanceUid);
    if (before && before.instance !== image.instance) throw samePlace(byNames(before, image));
    known.set(instanceUid, image);
  }
}

const byNames = (...images: readonly Image[]): Image[] =>
  images.toSorted((a, b) => (a.name < b.name ? -1 : 1));

/** Sorts the images at one position, falling back to instance number and storage order if nothing else distinguishes them. */
function inTime(images: Image[], order: (one: Image, other: Image) => number): void {
  const numberIn = ({ instance }: Image) => instance.header.instanceNumber;
  images.sort((a, b) => order(a, b) || (numberIn(a) ?? 0) - (numberIn(b) ?? 0) || a.index - b.index);
  for (const [index, image] of images.entries()) {
    const before = images[index - 1];
    if (!before || order(before, image) !== 0) continue;
    if (before.instance === image.instance) {
      if (image.instance.isInOrder) continue;
      throw new VolumeError(
        `${before.name} and ${image.name} lie at the same place, and nothing says which time point or echo they are: convert the file with dcm2niix.`,
      );
    }
    const numbers = [numberIn(before), numberIn(image)];
    if (numbers.includes(null) || numbers[0] === numbers[1]) throw samePlace(byNames(before, image));
  }
}
