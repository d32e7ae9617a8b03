import type { DataSet } from 'dicom-parser';
import type { DicomElement } from './dicom-write.js';
import { decodeText } from './headers/dicom-header.js';
import { wordsOf } from './headers/dicom-parse.js';
import type { SourceSeries } from './segments.js';

/**
 * The attributes that a derived object copies from its series: those of the modules Patient, Clinical Trial Subject and Study,
 * General Study, Patient Study and Frame of Reference (PS3.3), except sequences. Required ones (type 2) are written empty if the
 * series has none.
 */
const shared: readonly (readonly [tag: string, vr: string, isNeeded?: 'needed'])[] = [
  ['00080020', 'DA', 'needed'], // StudyDate
  ['00080030', 'TM', 'needed'], // StudyTime
  ['00080050', 'SH', 'needed'], // AccessionNumber
  ['00080090', 'PN', 'needed'], // ReferringPhysicianName
  ['00080201', 'SH'], // TimezoneOffsetFromUTC
  ['00081030', 'LO'], // StudyDescription
  ['00081048', 'PN'], // PhysiciansOfRecord
  ['00081060', 'PN'], // NameOfPhysiciansReadingStudy
  ['00100010', 'PN', 'needed'], // PatientName
  ['00100020', 'LO', 'needed'], // PatientID
  ['00100021', 'LO'], // IssuerOfPatientID
  ['00100022', 'CS'], // TypeOfPatientID
  ['00100030', 'DA', 'needed'], // PatientBirthDate
  ['00100032', 'TM'], // PatientBirthTime
  ['00100040', 'CS', 'needed'], // PatientSex
  ['00101000', 'LO'], // OtherPatientIDs
  ['00101001', 'PN'], // OtherPatientNames
  ['00101010', 'AS'], // PatientAge
  ['00101020', 'DS'], // PatientSize
  ['00101030', 'DS'], // PatientWeight
  ['00102160', 'SH'], // EthnicGroup
  ['00102180', 'SH'], // Occupation
  ['001021b0', 'LT'], // AdditionalPatientHistory
  ['00102201', 'LO'], // PatientSpeciesDescription
  ['00102292', 'LO'], // PatientBreedDescription
  ['00102297', 'PN'], // ResponsiblePerson
  ['00102298', 'CS'], // ResponsiblePersonRole
  ['00104000', 'LT'], // PatientComments
  ['00120010', 'LO'], // ClinicalTrialSponsorName
  ['00120020', 'LO'], // ClinicalTrialProtocolID
  ['00120021', 'LO'], // ClinicalTrialProtocolName
  ['00120030', 'LO'], // ClinicalTrialSiteID
  ['00120031', 'LO'], // ClinicalTrialSiteName
  ['00120040', 'LO'], // ClinicalTrialSubjectID
  ['00120042', 'LO'], // ClinicalTrialSubjectReadingID
  ['00120050', 'LO'], // ClinicalTrialTimePointID
  ['00120051', 'ST'], // ClinicalTrialTimePointDescription
  ['00120062', 'CS'], // PatientIdentityRemoved
  ['00120063', 'LO'], // DeidentificationMethod
  ['0020000d', 'UI'], // StudyInstanceUID
  ['00200010', 'SH', 'needed'], // StudyID
  ['00201040', 'LO', 'needed'], // PositionReferenceIndicator
];

/** Value representations whose texts are in the data set's character set. */
const inCharacterSet = /^(?:PN|LO|SH|ST|LT|UT|UC)$/;

/** Copies an element's bytes, so that the header can be freed. */
const bytesOf = (set: DataSet, { dataOffset, length }: { dataOffset: number; length: number }): Uint8Array =>
  set.byteArray.slice(dataOffset, dataOffset + length);

/** The attributes of the patient and the study in a file, byte for byte. */
export const readIdentity = (set: DataSet): DicomElement[] =>
  shared.flatMap(([tag, vr, isNeeded]): DicomElement[] => {
    const element = set.elements[`x${tag}`];
    if (element && element.length > 0) return [[tag, vr, bytesOf(set, element)]];
    return isNeeded ? [[tag, vr, new Uint8Array(0)]] : [];
  });

/** LossyImageCompression of a file, with ratio and method if it was compressed lossily. */
export function readLossy(set: DataSet): DicomElement[] {
  if (wordsOf(set, 'x00282110') !== '01') return [['00282110', 'CS', '00']];
  const described = ['00282110', '00282112', '00282114'] as const;
  return described.flatMap((tag): DicomElement[] => {
    const element = set.elements[`x${tag}`];
    return element ? [[tag, tag === '00282112' ? 'DS' : 'CS', bytesOf(set, element)]] : [];
  });
}

const isAscii = (bytes: Uint8Array): boolean => bytes.every((byte) => byte < 0x80 && byte !== 0x1b);
const isAsciiText = (text: string): boolean => isAscii(Buffer.from(text));

/** The first elements of a data set that belongs to a study, and how its own texts are written. */
export interface PatientAndStudy {
  readonly elements: readonly DicomElement[];
  /** Converts a text to the character set of the data set; `instead` if it has letters that the set lacks. */
  readonly text: (words: string, instead?: string) => string;
  /** The texts that lost characters which the character set of the data set lacks. */
  readonly altered: readonly string[];
}

/**
 * The patient and study attributes for a data set that belongs to a series, with their character set. They remain byte for byte
 * if all other texts of the data set are ASCII. Otherwise everything becomes UTF-8, which can represent every name. If the texts
 * of the series cannot be decoded, their bytes remain, and the other texts are reduced to ASCII.
 * @param texts all other texts of the data set
 */
export function patientAndStudy(source: SourceSeries, texts: readonly string[]): PatientAndStudy {
  const { identity, characterSet } = source;
  const declared = (set: string | null): DicomElement[] => (set === null ? [] : [['00080005', 'CS', set]]);
  const asTheyAre = { elements: [...declared(characterSet), ...identity], text: (words: string) => words };
  if (texts.every(isAsciiText)) return { ...asTheyAre, altered: [] };
  const decoded = inUtf8(identity, characterSet);
  if (!decoded) return { ...asTheyAre, text: inAscii, altered: texts.filter((each) => !isAsciiText(each)) };
  return { ...asTheyAre, elements: [...declared('ISO_IR 192'), ...decoded], altered: [] };
}

/** Converts elements to UTF-8; null if their texts cannot be decoded. */
function inUtf8(elements: readonly DicomElement[], characterSet: string | null): DicomElement[] | null {
  const all: DicomElement[] = [];
  for (const [tag, vr, value] of elements) {
    if (!(value instanceof Uint8Array) || !inCharacterSet.test(vr) || isAscii(value)) {
      all.push([tag, vr, value]);
      continue;
    }
    const text = characterSet === null ? null : decodeText(characterSet, value, vr);
    if (text === null) return null;
    all.push([tag, vr, Buffer.from(text.trimEnd())]);
  }
  return all;
}

/** Removes accents from a text; a text that still has non-ASCII letters is replaced as a whole. */
function inAscii(words: string, instead = ''): string {
  const plain = words.normalize('NFKD').replaceAll(/[\p{M}\p{Cc}]/gu, '');
  return isAsciiText(plain) ? plain : instead;
}
