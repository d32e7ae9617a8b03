import type { DicomElements } from '@remote-app/volumes';
import type { Attribute } from '@remote-app/volumes/attributes';

export type DataSet = DicomElements['set'];
export type Element = NonNullable<DataSet['elements'][string]>;

/** Bytes of a number, by value representation. */
const sizes: Readonly<Record<string, number>> = { US: 2, SS: 2, OW: 2, UL: 4, SL: 4, FL: 4, AT: 4, FD: 8 };

const decimal = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;

/**
 * Maximum length of a number, in characters. The standard allows 16, but many programs write all digits of a double, and readers
 * accept them.
 */
const maxDecimal = 64;

const isInteger = /^(?:[US][SL]|AT)$/;
const printable = /^[\x20-\x7e]+[\0 ]?$/;

/** UIDs defined by the standard: a short path below its root. */
const wellKnown = /^1\.2\.840\.10008(?:\.(?:0|[1-9]\d{0,3})){1,8}$/;
export const isWellKnown = (uid: string): boolean => wellKnown.test(uid);

/** Maximum length of a text that is examined, in characters. */
const maxText = 1 << 20;

export const bytesOf = (set: DataSet, element: Element): Buffer => {
  const bytes = set.byteArray.subarray(element.dataOffset, element.dataOffset + element.length);
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
};

/** The values of a text element, without their padding. */
export function textsOf(set: DataSet, element: Element): string[] {
  if (element.length > maxText) return [];
  const text = bytesOf(set, element).toString('latin1');
  return text.split('\\').map((each) => each.replaceAll('\0', ' ').trim());
}

/** The first value of a text element; empty if it is absent. */
export function textOf(set: DataSet, tag: string): string {
  const element = set.elements[tag];
  return element ? (textsOf(set, element)[0] ?? '') : '';
}

/** How the values of a file are encoded. */
export interface Reading {
  readonly isBig: boolean;
  readonly isSigned: boolean;
}

/** The value representation with which an attribute is written; null if the value does not fit it. */
export function vrOf(attribute: Attribute, element: Element, { isBig, isSigned }: Reading): string | null {
  const [first = ''] = attribute.vrs;
  const usual = first === 'US' && attribute.vrs.includes('SS') && isSigned ? 'SS' : first;
  const given = element.vr;
  if (given === undefined) return attribute.vrs.includes('OW') ? 'OW' : usual;
  if (attribute.vrs.includes(given)) return given;
  const isNumber = sizes[usual] !== undefined;
  // A value of VR UN is always little-endian.
  if (given === 'UN') return isNumber && isBig ? null : usual;
  const isText = sizes[given] === undefined && !/^(?:SQ|O[BDFLV]|[SU]V)$/.test(given);
  return isText && !isNumber && first !== 'SQ' ? first : null;
}

/** Numbers, unchanged; null if the value is not numeric. */
export function numbersOf(
  set: DataSet,
  element: Element,
  attribute: Attribute,
  vr: string,
): Buffer | string | null {
  const size = sizes[vr];
  if (size !== undefined) {
    const count = element.length / size;
    const bytes = bytesOf(set, element);
    // Some programs write text where numbers belong.
    const isText = isInteger.test(vr) && bytes.length >= 6 && printable.test(bytes.toString('latin1'));
    const isList = attribute.maxValues === Number.POSITIVE_INFINITY;
    const isSound = Number.isInteger(count) && count <= attribute.maxValues && (isList || !isText);
    return isSound ? bytes : null;
  }
  const texts = textsOf(set, element);
  const isSound = texts.every((each) => each === '' || (each.length <= maxDecimal && decimal.test(each)));
  return isSound && texts.length <= attribute.maxValues ? texts.join('\\') : null;
}

/** The listed terms of a value, with others left empty; null if the first one is not listed. */
export function termsOf(set: DataSet, element: Element, attribute: Attribute): string | null {
  const given = textsOf(set, element);
  if (given.join('') === '') return '';
  const texts = given.map((each) => (attribute.allows(each) ? each : ''));
  if (texts.length > attribute.maxValues || !texts[0]) return null;
  return texts.join('\\').replace(/\\+$/, '');
}
