import { createHash } from 'node:crypto';
import { type DicomElement, decimalString, sequence } from './dicom-write.js';
import { dot, normalOf } from './headers/dicom-stack.js';
import { type PatientAndStudy, patientAndStudy } from './patient-study.js';
import type { Maker, SourceImage, SourceSeries } from './segments.js';
import { type Geometry, placeOf } from './volume.js';

/** Derives a UID from what identifies an object, so that the same object always gets the same UID (PS3.5, B.2). */
export function derivedUid(...parts: readonly (string | number)[]): string {
  const bytes = createHash('sha256').update(JSON.stringify(parts)).digest().subarray(0, 16);
  // The version and the variant of a custom UUID (RFC 9562, 5.8).
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x80;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return `2.25.${BigInt(`0x${bytes.toString('hex')}`)}`;
}

const two = (number: number): string => String(number).padStart(2, '0');

/** Formats a date (DA) and a time (TM). */
export const dateOf = (at: Date): string =>
  `${at.getFullYear()}${two(at.getMonth() + 1)}${two(at.getDate())}`;
export const timeOf = (at: Date): string =>
  `${two(at.getHours())}${two(at.getMinutes())}${two(at.getSeconds())}`;

/** Reduces a text to one value of at most 64 characters (LO). */
export const longString = (text: string): string =>
  [...text.replaceAll(/[\\\p{Cc}]/gu, ' ').trim()].slice(0, 64).join('');

/** An item of a code sequence. */
export const codeItem = (value: string, scheme: 'SCT' | 'DCM', meaning: string): DicomElement[] => [
  ['00080100', 'SH', value],
  ['00080102', 'SH', scheme],
  ['00080104', 'LO', longString(meaning)],
];

/** Numbers as decimal strings. */
export const decimals = (numbers: readonly number[]): string[] => numbers.map(decimalString);

/** The distance between slices of a series along their normal, in mm. */
export function spacingBetween({ affine, orientation }: SourceSeries): number {
  const [right, front, up] = affine.map((row) => row[2]) as [number, number, number];
  return Math.abs(dot([-right, -front, up], normalOf(orientation)));
}

/** The position of slice k of a series in mm, in LPS+, with six decimals. */
export function positionOf({ affine }: Geometry, k: number): number[] {
  const [right, front, up] = placeOf({ affine }, 0, 0, k);
  return [-right, -front, up].map((value) => Number(value.toFixed(6)) + 0);
}

/** What a derived object says about itself. */
interface ObjectFacts {
  readonly sopClass: string;
  readonly seriesUid: string;
  readonly instanceUid: string;
  readonly modality: string;
  readonly instanceNumber?: number;
  readonly maker: Maker;
  /** All other texts that may contain non-ASCII characters. */
  readonly texts?: readonly string[];
}

/** First number of derived series, above those of scanners. */
const firstNumber = 1000;

/** Maximum value of an IS. */
const largest = 2 ** 31 - 1;

/** The patient, study, series, equipment and instance of an object in the study of a series. */
export function derivedObject(source: SourceSeries, facts: ObjectFacts): PatientAndStudy {
  const { maker, seriesUid, instanceUid, sopClass, modality, instanceNumber = 1 } = facts;
  const description = longString(maker.name);
  const model = longString(maker.app ?? 'remote-app');
  const versions = [...(maker.appVersion === null ? [] : [maker.appVersion]), `remote-app ${maker.version}`];
  const own = [description, model, ...versions, ...(facts.texts ?? [])];
  const { elements, text, altered } = patientAndStudy(source, own);
  return {
    text,
    altered,
    elements: [
      ...elements,
      ['00080016', 'UI', sopClass],
      ['00080018', 'UI', instanceUid],
      ['00080023', 'DA', dateOf(maker.madeAt)],
      ['00080033', 'TM', timeOf(maker.madeAt)],
      ['00080060', 'CS', modality],
      ['00080070', 'LO', 'remote-app'],
      ['0008103e', 'LO', text(description)],
      ['00081090', 'LO', text(model)],
      // Type 1, although software has no serial number.
      ['00181000', 'LO', '0'],
      ['00181020', 'LO', versions.map((each) => text(longString(each)))],
      ['0020000e', 'UI', seriesUid],
      ['00200011', 'IS', String(Math.min(largest, firstNumber + (source.seriesNumber ?? 0)))],
      ['00200013', 'IS', String(instanceNumber)],
      ['00200052', 'UI', source.frameOfReferenceUid],
    ],
  };
}

/** An item that references a DICOM object by its class and instance. */
export const reference = (sopClass: string, sopInstance: string): DicomElement[] => [
  ['00081150', 'UI', sopClass],
  ['00081155', 'UI', sopInstance],
];

/** References to the files of images, each file once. */
export const fileReferences = (images: readonly SourceImage[]): DicomElement[][] =>
  [...new Map(images.map(({ sopInstance, sopClass }) => [sopInstance, sopClass]))].map(
    ([sopInstance, sopClass]) => reference(sopClass, sopInstance),
  );

/** A reference to an image, with its frame number. */
export const imageReference = ({ sopClass, sopInstance, frame }: SourceImage): DicomElement[] => [
  ...reference(sopClass, sopInstance),
  ...(frame === null ? [] : [['00081160', 'IS', String(frame)] as const]),
];

/** ReferencedSeriesSequence for some images of a series; by default for all. */
export const referencedSeries = (
  source: SourceSeries,
  images: readonly SourceImage[] = source.slices.flat(),
): DicomElement =>
  sequence('00081115', [
    sequence('0008114a', ...fileReferences(images)),
    ['0020000e', 'UI', source.seriesUid],
  ]);

/** SourceImageSequence for images at the same position. */
export const sourceImages = (images: readonly SourceImage[]): DicomElement =>
  sequence(
    '00082112',
    ...images.map((image): DicomElement[] => [
      ...imageReference(image),
      ['0028135a', 'CS', 'YES'],
      sequence('0040a170', codeItem('121322', 'DCM', 'Source image for image processing operation')),
    ]),
  );
