import { type DicomElement, privateItems } from '@remote-app/volumes';
import { type Attribute, nameOfRemoved, neutralCsa, privateAttribute } from '@remote-app/volumes/attributes';
import { CannotDeidentify } from './refusals.js';
import type { StudyTimes } from './times.js';
import type { Pseudonyms } from './uids.js';
import {
  bytesOf,
  type DataSet,
  type Element,
  isWellKnown,
  numbersOf,
  type Reading,
  termsOf,
  textOf,
  textsOf,
  vrOf,
} from './values.js';

/** Maximum nesting of sequences; deeper ones are removed. Enhanced objects have four levels. */
const maxDepth = 16;

/** What is needed to rewrite a data set, and what is recorded on the way. */
export interface Rewriting {
  /** Name of the file in messages. */
  readonly file: string;
  /** Whether uptake is computed from the values, for which times are needed. */
  readonly isEmission: boolean;
  readonly table: ReadonlyMap<string, Attribute>;
  readonly reading: Reading;
  readonly pseudonyms: Pseudonyms;
  readonly times: StudyTimes;
  readonly kept: Set<string>;
  readonly removed: Set<string>;
  /** Options of PS3.15 under which attributes were kept. */
  readonly options: Set<string>;
  /** Names of the fields kept of a Siemens CSA header. */
  readonly ofCsa: Set<string>;
}

/** Readable name of a removed attribute. */
function nameOf(tag: string): string {
  const group = Number.parseInt(tag.slice(0, 4), 16);
  if (group % 2 === 1) return 'private attributes';
  if (group >= 0x6000 && group <= 0x60ff) return 'overlays';
  if (group >= 0x5000 && group <= 0x50ff) return 'curves';
  return nameOfRemoved(tag);
}

/** Whether an element is pure structure: a group length, an item delimiter, file meta information or pixels. */
const isStructure = (tag: string): boolean =>
  tag.endsWith('0000') || tag === 'fffee00d' || tag.startsWith('0002') || tag.startsWith('7fe0');

const isOdd = (tag: string): boolean => Number.parseInt(tag.slice(0, 4), 16) % 2 === 1;

/** The tag of the element that names the creator of a private element. */
const creatorTag = (tag: string): string => `${tag.slice(0, 4)}00${tag.slice(4, 6)}`;

const creatorOf = (set: DataSet, tag: string): string => textOf(set, `x${creatorTag(tag)}`);

/**
 * The elements of a data set that may leave, at every depth.
 * @throws CannotDeidentify for a value that may not leave but without which the image would mean something else
 */
export function rewritten(set: DataSet, how: Rewriting, depth = 0): DicomElement[] {
  const elements: DicomElement[] = [];
  const creators = new Map<string, string>();
  for (const [key, element] of Object.entries(set.elements)) {
    const tag = key.slice(1);
    if (isStructure(tag)) continue;
    const attribute = isOdd(tag) ? privateAttribute(creatorOf(set, tag), tag) : how.table.get(tag);
    const written = attribute ? rewrittenElement(set, element, attribute, how, depth) : null;
    if (written) {
      elements.push(written);
      if (isOdd(tag)) creators.set(creatorTag(tag), creatorOf(set, tag));
      continue;
    }
    if (attribute && element.length > 0 && isNeeded(attribute, how)) throw needed(how.file, attribute.name);
    how.removed.add(attribute?.name ?? nameOf(tag));
  }
  return [...elements, ...[...creators].map(([tag, name]): DicomElement => [tag, 'LO', name])];
}

/** Decay is computed from times of day; dates do not matter for it. */
const isNeeded = ({ isNeeded, treatment, vrs }: Attribute, { isEmission }: Rewriting): boolean =>
  isNeeded || (isEmission && treatment === 'time' && !vrs.includes('DA'));

const needed = (file: string, attribute: string): CannotDeidentify =>
  new CannotDeidentify(
    file,
    'unreadable',
    `${file} has a value of ${attribute} that cannot be read, and without it the image would be another: ` +
      'correct it, for example with dcmodify, or convert the scan to NIfTI and look at its values',
  );

function rewrittenElement(
  set: DataSet,
  element: Element,
  attribute: Attribute,
  how: Rewriting,
  depth: number,
): DicomElement | null {
  const { tag, treatment } = attribute;
  const vr = vrOf(attribute, element, how.reading);
  if (treatment === 'items') {
    const items = itemsOf(set, element, how, depth);
    if (items) how.kept.add(attribute.name);
    return items && [tag, 'SQ', items];
  }
  if (treatment === 'fallback' && vr === 'SQ') {
    how.removed.add(attribute.name);
    return [tag, vr, []];
  }
  // An element with items is a sequence, whatever its attribute should be.
  if (vr === null || element.items) return null;
  const value = keptValue(set, element, attribute, vr, how);
  if (value !== null) {
    const isReplaced = treatment === 'uid' || treatment === 'pseudonym';
    if (value.length > 0) (isReplaced ? how.removed : how.kept).add(attribute.name);
    if (attribute.option !== null && value.length > 0) how.options.add(attribute.option);
    return [tag, vr, value];
  }
  if (attribute.fallback === null) return null;
  how.removed.add(attribute.name);
  return [tag, vr, attribute.fallback];
}

/** The rewritten items of a sequence; null for another element, and for one nested too deep. */
function itemsOf(set: DataSet, element: Element, how: Rewriting, depth: number): DicomElement[][] | null {
  if (element.items === undefined && element.length === 0) return [];
  const items = element.items ?? (isOdd(element.tag.slice(1)) ? privateItems(set, element) : undefined);
  if (!items || depth === maxDepth) return null;
  return items.map(({ dataSet }) => (dataSet ? rewritten(dataSet, how, depth + 1) : []));
}

/** The value that may leave; null if there is none. */
function keptValue(
  set: DataSet,
  element: Element,
  attribute: Attribute,
  vr: string,
  { pseudonyms, times, ofCsa }: Rewriting,
): string | Uint8Array | null {
  const texts = (map: (text: string) => string): string =>
    textsOf(set, element)
      .slice(0, attribute.maxValues)
      .map((text) => text && map(text))
      .join('\\');
  switch (attribute.treatment) {
    case 'numbers':
      return numbersOf(set, element, attribute, vr);
    case 'terms':
      return termsOf(set, element, attribute);
    case 'uid':
      return texts((uid) => pseudonyms.uid(uid));
    case 'well-known':
      return texts((uid) => (isWellKnown(uid) ? uid : pseudonyms.uid(uid)));
    case 'pseudonym':
      return texts((id) => pseudonyms.patient(id));
    case 'time':
      return times.shifted(set, `x${attribute.tag}`, vr);
    case 'csa': {
      const csa = neutralCsa(bytesOf(set, element));
      for (const name of csa?.names ?? []) ofCsa.add(name);
      return csa?.bytes ?? null;
    }
    default:
      return texts((text) => text) === '' ? '' : null;
  }
}
