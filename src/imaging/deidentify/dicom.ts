import { createHash } from 'node:crypto';
import {
  type DicomElement,
  type DicomElements,
  encodeElements,
  fileStart,
  readElements,
  syntaxes,
  VolumeError,
} from '@remote-app/volumes';
import { attributes } from '@remote-app/volumes/attributes';
import type { PackedPiece } from '../../archive/index.js';
import { type Rewriting, rewritten } from './data-set.js';
import { pixelPieces } from './dicom-pixels.js';
import { type Deidentified, sizeOf } from './pieces.js';
import {
  CannotDeidentify,
  classFor,
  isDiffusion,
  isEmission,
  isEnhanced,
  isMosaic,
  reasonsAgainst,
  refusals,
} from './refusals.js';
import { StudyTimes } from './times.js';
import type { Pseudonyms } from './uids.js';
import { isWellKnown, textOf } from './values.js';

export interface DeidentifyOptions {
  readonly pseudonyms: Pseudonyms;
  /** Names of the refusals that the user overrides. */
  readonly allowed: ReadonlySet<string>;
}

/** Options of PS3.15 as codes (PS3.16, CID 7050). */
const profile = ['', '113100', 'Basic Application Confidentiality Profile'] as const;
const modifiedDates = 'Retain Longitudinal Temporal Information with Modified Dates';
const options: readonly (readonly [name: string, code: string, meaning: string])[] = [
  [modifiedDates, '113107', 'Retain Longitudinal Temporal Information Modified Dates Option'],
  ['Retain Patient Characteristics', '113108', 'Retain Patient Characteristics Option'],
  ['Retain Safe Private', '113111', 'Retain Safe Private Option'],
];

async function read(file: string, name: string): Promise<DicomElements> {
  try {
    return await readElements(file, name);
  } catch (cause) {
    if (!(cause instanceof VolumeError)) throw cause;
    throw new CannotDeidentify(name, 'unreadable', cause.message, { cause });
  }
}

/** Objects with functional groups have times for each frame. */
const functionalGroups = ['x52009229', 'x52009230'];

/**
 * De-identifies a DICOM file: writes a new data set with only the attributes that may leave. The pixels stay in the file.
 * @param name what messages call the file
 * @throws CannotDeidentify
 */
export async function deidentifyDicom(
  file: string,
  name: string,
  { pseudonyms, allowed }: DeidentifyOptions,
): Promise<Deidentified> {
  const dicom = await read(file, name);
  const { set, pixels } = dicom;
  const named = textOf(set, 'x00080016') || textOf(set, 'x00020002');
  for (const reason of reasonsAgainst(set, named, pixels !== null))
    if (!refusals[reason].isAllowable || !allowed.has(reason)) throw new CannotDeidentify(name, reason);
  if (pixels === null) throw new CannotDeidentify(name, 'no-image');
  if (!/^1\.2\.840\.10008\.1\.2(?:\.\d{1,3}){0,3}$/.test(dicom.syntax))
    throw new CannotDeidentify(
      name,
      'unreadable',
      `${name} has a transfer syntax that is not of the standard: convert it, for example with gdcmconv --raw`,
    );
  const sopClass = classFor(set, isWellKnown(named) || named === '' ? named : pseudonyms.uid(named));
  const how = rewritingOf(dicom, sopClass, pseudonyms, name);
  const instance = pseudonyms.uid(
    textOf(set, 'x00080018') || textOf(set, 'x00020003') || digestOf(set.byteArray),
  );
  const elements = rewritten(set, how).filter(([tag]) => tag !== '00080016' && tag !== '00080018');
  if (isMosaic(set) && !ofMosaic.every((each) => how.ofCsa.has(each)))
    throw new CannotDeidentify(name, 'mosaic');
  const saysB = [...how.kept, ...how.ofCsa].some((each) =>
    /^(DiffusionBValue|DiffusionBFactor|B_value)\b/.test(each),
  );
  if (isDiffusion(set) && !saysB && how.removed.has('private attributes'))
    throw new CannotDeidentify(name, 'diffusion');
  elements.push(['00080016', 'UI', sopClass], ['00080018', 'UI', instance], ...statementOf(how));
  const syntax = [syntaxes.implicit, syntaxes.deflated].some((each) => each === dicom.syntax)
    ? syntaxes.explicit
    : dicom.syntax;
  const encoding = how.reading.isBig ? syntaxes.bigEndian : syntaxes.explicit;
  const body = encodeElements(elements, encoding);
  const start = await pixelPieces(file, dicom, pixels, encoding);
  const head = Buffer.concat([fileStart({ syntax, sopClass, sopInstance: instance }), body, start.start]);
  const pieces: PackedPiece[] = [head, ...start.pieces];
  return { pieces, size: sizeOf(pieces), kept: [...how.kept], removed: [...how.removed] };
}

const digestOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** CSA fields that give the number of slices in a mosaic, and the direction in which they follow each other. */
const ofMosaic = ['NumberOfImagesInMosaic', 'SliceNormalVector'];

function rewritingOf(
  { set, syntax }: DicomElements,
  sopClass: string,
  pseudonyms: Pseudonyms,
  file: string,
): Rewriting {
  const isTimed = isEnhanced(sopClass) || functionalGroups.some((tag) => set.elements[tag]);
  const table = isEmission(sopClass) ? attributes.emission : isTimed ? attributes.timed : attributes.image;
  return {
    file,
    isEmission: isEmission(sopClass),
    table,
    reading: {
      isBig: syntax === syntaxes.bigEndian,
      isSigned: set.uint16('x00280103') === 1,
    },
    pseudonyms,
    times: new StudyTimes(set, pseudonyms),
    kept: new Set(),
    removed: new Set(),
    options: new Set(),
    ofCsa: new Set(),
  };
}

/** The attributes that state that the identity was removed, and by which profile and options. */
function statementOf({ options: used }: Rewriting): DicomElement[] {
  const codes = [profile, ...options.filter(([name]) => used.has(name))];
  return [
    ['00120062', 'CS', 'YES'],
    ['00120063', 'LO', 'Attributes of a list; UIDs, times and numbers replaced'],
    [
      '00120064',
      'SQ',
      codes.map(([, code, meaning]): DicomElement[] => [
        ['00080100', 'SH', code],
        ['00080102', 'SH', 'DCM'],
        ['00080104', 'LO', meaning],
      ]),
    ],
    ['00280303', 'CS', used.has(modifiedDates) ? 'MODIFIED' : 'REMOVED'],
  ];
}
