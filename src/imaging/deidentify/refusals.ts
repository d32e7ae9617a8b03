import { ClientError } from '../../client/errors.js';
import { exitCodes } from '../../contract/index.js';
import { type DataSet, textOf, textsOf } from './values.js';

/** Why a file cannot be de-identified, and whether the user may allow it after looking at it. */
export const refusals = {
  'burned-in': {
    why: 'says that text is burned into its pixels (BurnedInAnnotation), which stays there',
    isAllowable: true,
  },
  overlay: {
    why: 'keeps an overlay in unused bits of its pixels, which may show text and stays there',
    isAllowable: true,
  },
  'secondary-capture': {
    why: 'is a secondary capture, such as a screenshot, whose pixels often show names',
    isAllowable: true,
  },
  ultrasound: { why: 'is an ultrasound image, whose pixels often show names', isAllowable: true },
  photograph: { why: 'is a photograph or a video, whose pixels may show a person', isAllowable: true },
  'other-image': {
    why: 'is an image of a kind that is not known to be free of identity',
    isAllowable: true,
  },
  report: { why: 'is a report, which describes a person in words', isAllowable: false },
  document: { why: 'is a document, such as a PDF, which describes a person in words', isAllowable: false },
  segmentation: {
    why: 'is a segmentation, whose names and descriptions would have to be removed: convert it to NIfTI or NRRD',
    isAllowable: false,
  },
  radiotherapy: {
    why: 'is a radiotherapy object, whose names and descriptions would have to be removed: convert what you need to NIfTI',
    isAllowable: false,
  },
  mosaic: {
    why:
      'is a mosaic, which has all slices in one image, and nothing that may leave says how many they are and where they lie: ' +
      'convert it to NIfTI, for example with dcm2niix',
    isAllowable: false,
  },
  diffusion: {
    why:
      'is weighted by diffusion, and its b-value may be in private attributes that are not known here and would be lost: ' +
      'convert it to NIfTI, for example with dcm2niix',
    isAllowable: false,
  },
  'no-image': { why: 'has no image', isAllowable: false },
  unreadable: { why: 'cannot be read well enough to leave out who it is of', isAllowable: false },
} as const satisfies Readonly<Record<string, { why: string; isAllowable: boolean }>>;

export type RefusalName = keyof typeof refusals;

/** The error for a file that cannot be de-identified. */
export class CannotDeidentify extends ClientError {
  override readonly name = 'CannotDeidentify';

  /** @param problem in place of the usual sentence: what is wrong, and what to do */
  constructor(
    file: string,
    readonly refusal: RefusalName,
    problem?: string,
    options?: ErrorOptions,
  ) {
    const { why, isAllowable } = refusals[refusal];
    const next = isAllowable ? `look at it, then leave it out or allow '${refusal}'` : 'leave it out';
    super(problem ?? `${file} ${why}; ${next}`, exitCodes.usage, { refusal }, options);
  }

  /** Whether the user may allow the file by the name of the refusal. */
  get isAllowable(): boolean {
    return refusals[this.refusal].isAllowable;
  }
}

const storage = String.raw`^1\.2\.840\.10008\.5\.1\.4\.1\.1`;

/**
 * Kinds of objects by SOP class (PS3.4, B.5), with the refusal; null for images that models are made for. The first match counts.
 */
const kinds: readonly (readonly [RegExp, RefusalName | null])[] = (
  [
    ['(1(\\.[1-3](\\.1)?)?|2(\\.[12])?|4(\\.[134])?)', null], // CR, DX, mammography, intra-oral; CT; MR
    ['(5|20|128(\\.1)?|130|30)', null], // nuclear medicine, PET, parametric maps
    ['(12\\.[12](\\.1)?|12\\.3|13\\.1\\.[1-5]|481\\.1)', null], // angiography, fluoroscopy, tomosynthesis, radiotherapy images
    ['7(\\.[1-4])?', 'secondary-capture'],
    ['(3(\\.1)?|6(\\.[123])?)', 'ultrasound'],
    ['77\\.1\\.[1245](\\.[\\d.]+)?', 'photograph'],
    ['(88|1\\.2\\.8)\\.[\\d.]+', 'report'],
    ['104\\.\\d+', 'document'],
    ['(66\\.[47])', 'segmentation'],
    ['481\\.[\\d.]+', 'radiotherapy'],
  ] as const
).map(([pattern, refusal]) => [new RegExp(`${storage}\\.${pattern}$`), refusal]);

/** SOP classes of objects from whose pixels uptake is computed. */
const emission = new RegExp(`${storage}\\.(5|20|128(\\.1)?|130)$`);
export const isEmission = (sopClass: string): boolean => emission.test(sopClass);

/** Classes of objects that may have functional groups: their times are required. */
const enhanced = new RegExp(`${storage}\\.(2\\.[12]|4\\.[134]|12\\.[12]\\.1|13\\.1\\.[1-5]|30|128\\.1|130)$`);
export const isEnhanced = (sopClass: string): boolean => enhanced.test(sopClass);

/** Words with which scanners mark screenshots in ImageType. */
const screen = /SCREEN|SNAPSHOT|DOSE[ _]?INFO|REPORT|PROTOCOL/;

/** The words of ImageType, in capitals. */
function typeOf(set: DataSet): string[] {
  const type = set.elements.x00080008;
  return type ? textsOf(set, type).map((word) => word.toUpperCase()) : [];
}

/** Whether an image is a mosaic of all slices, as in functional MR of Siemens and United Imaging. */
export const isMosaic = (set: DataSet): boolean =>
  typeOf(set).some((word) => word === 'MOSAIC' || word === 'VFRAME');

/** Whether an image is diffusion-weighted, and not a map computed from such images. */
export const isDiffusion = (set: DataSet): boolean =>
  typeOf(set)[0] === 'ORIGINAL' && typeOf(set).includes('DIFFUSION');

/** Whether an overlay without data of its own is stored in unused bits of the pixels. */
const hasPixelOverlay = (set: DataSet): boolean =>
  Array.from({ length: 16 }, (_, at) => `x60${(2 * at).toString(16).padStart(2, '0')}`).some(
    (group) =>
      set.elements[`${group}0010`] !== undefined &&
      set.elements[`${group}0102`] !== undefined &&
      set.elements[`${group}3000`] === undefined,
  );

/** All reasons for which an object is refused; empty if there are none. */
export function reasonsAgainst(set: DataSet, sopClass: string, hasPixels: boolean): RefusalName[] {
  const kind = kinds.find(([pattern]) => pattern.test(sopClass));
  const reasons: RefusalName[] = [];
  if (kind === undefined && (sopClass !== '' || !isScanner(set)))
    reasons.push(hasPixels ? 'other-image' : 'no-image');
  if (kind?.[1]) reasons.push(kind[1]);
  if (/^YES$/i.test(textOf(set, 'x00280301'))) reasons.push('burned-in');
  if (hasPixelOverlay(set)) reasons.push('overlay');
  if (typeOf(set).some((word) => screen.test(word))) reasons.push('secondary-capture');
  return reasons;
}

/** Whether the modality is one whose images have no SOP class in old files. */
const isScanner = (set: DataSet): boolean => /^(?:CT|MR|PT|NM)$/.test(textOf(set, 'x00080060'));

/** Default SOP classes by modality, for files that name none. Other modalities count as secondary capture. */
const usualClasses: Readonly<Record<string, string>> = { CT: '2', MR: '4', PT: '128', NM: '20' };
export const classFor = (set: DataSet, sopClass: string): string =>
  sopClass === '' ? `1.2.840.10008.5.1.4.1.1.${usualClasses[textOf(set, 'x00080060')] ?? '7'}` : sopClass;
