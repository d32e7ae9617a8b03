import type { DataSet } from 'dicom-parser';
import { readNumber } from './dicom-numbers.js';
import { groupOf, hasGroups } from './dicom-places.js';
import { itemOf, wordsOf } from './headers/dicom-parse.js';
import { VolumeError } from './volume.js';

/** What distinguishes the images at one position: time points, echoes, b-values, magnitude and phase. Null where unknown. */
export interface Moment {
  /** DimensionIndexValues of the dimensions that are not spatial, in the order of the file, with their pointers. */
  readonly dimensions: readonly (readonly [pointer: string, index: number])[] | null;
  readonly time: number | null;
  readonly echo: number | null;
  readonly bValue: number | null;
  readonly gradient: string | null;
  /** Magnitude, phase, real or imaginary part, from the image type. */
  readonly component: string | null;
  /** These attributes only give an order. They may differ between positions. */
  readonly delay: number | null;
  readonly acquisition: number | null;
}

/** Spatial dimensions: stacks, places in a stack, positions. */
const ofSpace = new Set(['x00209056', 'x00209057', 'x00200032', 'x00201041', 'x00209113']);

/** Vectors of NM with a number for each frame: energy window, detector, phase, rotation, RR interval, time slot. */
const vectors = ['x00540010', 'x00540020', 'x00540030', 'x00540060', 'x00540070', 'x00540100'];

function dimensionsOf(set: DataSet, content: DataSet, index: number): Moment['dimensions'] {
  const frames = vectors.flatMap((tag) => {
    const value = set.elements[tag] ? set.uint16(tag, index) : undefined;
    return value === undefined ? [] : [[tag, value] as const];
  });
  if (frames.length > 0) return frames;
  const items = set.elements.x00209222?.items ?? [];
  const { length = 0 } = content.elements.x00209157 ?? {};
  if (items.length === 0 || length !== items.length * 4) return null;
  return items.flatMap(({ dataSet }, at) => {
    const pointer = dataSet?.attributeTag('x00209165') ?? '';
    return ofSpace.has(pointer) ? [] : [[`${pointer}.${at}`, content.uint32('x00209157', at) ?? 0] as const];
  });
}

const rounded = (value: number | undefined | null, digits: number): number | null =>
  value === undefined || value === null || !Number.isFinite(value) ? null : Number(value.toFixed(digits));

/** The attributes that distinguish an image. @throws VolumeError for texts that are not numbers */
export function momentOf(set: DataSet, index: number, name: string): Moment {
  const group = (tag: string) => groupOf(set, index, tag);
  const content = group('x00209111');
  const diffusion = group('x00189117');
  const direction = itemOf(diffusion, 'x00189076') ?? diffusion;
  const gradient = [0, 1, 2].map((at) => rounded(doubleOf(direction, 'x00189089', at), 2));
  const frameType = group('x00189226');
  return {
    dimensions: dimensionsOf(set, content, index),
    time: longOf(content, 'x00209128') ?? readNumber(set, 'x00200100', name),
    echo:
      rounded(doubleOf(group('x00189114'), 'x00189082'), 2) ??
      rounded(readNumber(set, 'x00180081', name), 2) ??
      readNumber(set, 'x00180086', name),
    bValue: rounded(doubleOf(diffusion, 'x00189087'), 1),
    gradient: gradient.every((each) => each !== null) ? gradient.join(' ') : null,
    component:
      [wordsOf(frameType, 'x00089208'), wordsOf(frameType, 'x00089007') ?? wordsOf(set, 'x00080008')]
        .filter(Boolean)
        .join(' ') || null,
    delay: doubleOf(group('x00209310'), 'x0020930d') ?? doubleOf(group('x00189118'), 'x00209153') ?? null,
    acquisition: shortOf(content, 'x00209156') ?? readNumber(set, 'x00200012', name),
  };
}

/** Whether an element is long enough for its value. */
const isLong = (set: DataSet, tag: string, bytes: number): boolean =>
  (set.elements[tag]?.length ?? 0) >= bytes;
const doubleOf = (set: DataSet, tag: string, at = 0): number | undefined =>
  isLong(set, tag, 8 * (at + 1)) ? set.double(tag, at) : undefined;
const longOf = (set: DataSet, tag: string): number | undefined =>
  isLong(set, tag, 4) ? set.uint32(tag) : undefined;
const shortOf = (set: DataSet, tag: string): number | undefined =>
  isLong(set, tag, 2) ? set.uint16(tag) : undefined;

/** Whether the order of frames in a file is meaningful. It is not if each frame has its own functional groups. */
export const isInFileOrder = (set: DataSet): boolean => !hasGroups(set);

interface Timed {
  readonly name: string;
  readonly moment: Moment;
}

/** An attribute by which the images at a position may differ. */
interface Criterion {
  readonly words: string;
  readonly keyOf: (moment: Moment) => number | string | null;
  /** Whether it only gives an order, and may have other values at another position. */
  readonly isRank?: boolean;
}

const attributes: readonly Criterion[] = [
  { words: 'temporal position', keyOf: ({ time }) => time },
  { words: 'echo', keyOf: ({ echo }) => echo },
  { words: 'b-value', keyOf: ({ bValue }) => bValue },
  { words: 'gradient direction', keyOf: ({ gradient }) => gradient },
  { words: 'type (magnitude, phase)', keyOf: ({ component }) => component },
  { words: 'delay', keyOf: ({ delay }) => delay, isRank: true },
  { words: 'acquisition number', keyOf: ({ acquisition }) => acquisition, isRank: true },
];

/** The file's own dimensions come first, because their order says which one varies slowest. */
function criteriaOf(images: readonly Timed[]): Criterion[] {
  const own = images[0]?.moment.dimensions ?? [];
  const isShared = images.every(
    ({ moment: { dimensions } }) =>
      dimensions?.length === own.length && dimensions.every(([pointer], at) => pointer === own[at]?.[0]),
  );
  if (!isShared) return [...attributes];
  return [
    ...own.map((_, at) => ({
      words: 'dimension index values',
      keyOf: ({ dimensions }: Moment) => dimensions?.[at]?.[1] ?? null,
    })),
    ...attributes,
  ];
}

function compare(one: number | string | null, other: number | string | null): number {
  if (one === other) return 0;
  if (one === null || other === null) return one === null ? -1 : 1;
  return one < other ? -1 : 1;
}

const contradiction = ({ name: one }: Timed, { name: other }: Timed, words: string): VolumeError =>
  new VolumeError(
    `${one} and ${other} contradict each other in their ${words}: which image belongs to which time point, echo or b-value is uncertain. Export the series again, or convert it with dcm2niix.`,
  );

/** TemporalPositionIndex. */
const timePointer = 'x00209128';

/** Refuses frames whose time indices contradict their temporal positions. */
function requireOneTime(images: readonly Timed[]): void {
  const known = new Map<number, { readonly time: number; readonly image: Timed }>();
  for (const image of images) {
    const index = image.moment.dimensions?.find(([pointer]) => pointer.startsWith(timePointer))?.[1];
    const { time } = image.moment;
    if (index === undefined || time === null) continue;
    const before = known.get(index);
    if (before && before.time !== time) throw contradiction(before.image, image, 'temporal positions');
    known.set(index, { time, image });
  }
  const ordered = [...known].sort(([a], [b]) => a - b).map(([, each]) => each);
  for (const [at, each] of ordered.entries()) {
    const before = ordered[at - 1];
    if (before && before.time >= each.time)
      throw contradiction(before.image, each.image, 'temporal positions');
  }
}

/**
 * Sorts the images at each position by their attributes, never by storage order.
 * @param levels the images at each position, the same number everywhere
 * @returns a comparison; 0 for images that no attribute distinguishes
 * @throws VolumeError if positions have different time points, echoes or b-values
 */
export function orderByMoment<T extends Timed>(levels: readonly T[][]): (one: T, other: T) => number {
  const chosen: Criterion[] = [];
  const order = (one: T, other: T): number => {
    for (const { keyOf } of chosen) {
      const sign = compare(keyOf(one.moment), keyOf(other.moment));
      if (sign !== 0) return sign;
    }
    return 0;
  };
  const all = levels.flat();
  if (levels.every(({ length }) => length < 2)) return order;
  requireOneTime(all);
  const sort = () => {
    for (const level of levels) level.sort(order);
  };
  const isUnique = () =>
    levels.every((level) => level.every((each, at) => at === 0 || order(level[at - 1] as T, each) !== 0));
  for (const criterion of criteriaOf(all)) {
    const varies = ([first, ...others]: readonly T[]) =>
      first !== undefined &&
      others.some(({ moment }) => criterion.keyOf(moment) !== criterion.keyOf(first.moment));
    if (!levels.some(varies)) continue;
    chosen.push(criterion);
    sort();
    if (isUnique()) break;
  }
  const [first = []] = levels;
  for (const level of levels)
    for (const [at, image] of level.entries())
      for (const { keyOf, words, isRank = false } of chosen) {
        const other = first[at];
        if (other && !isRank && keyOf(other.moment) !== keyOf(image.moment))
          throw contradiction(other, image, words);
      }
  return order;
}
