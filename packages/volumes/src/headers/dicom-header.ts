import { open } from 'node:fs/promises';
import { convertBytes } from 'dicom-character-set';
import type { DataSet } from 'dicom-parser';
import { hasAllPixels, numberOf, numbersOf, parseDicomStart, pixelData, wordsOf } from './dicom-parse.js';
import { readBytes, unzippedIfPossible } from './dicom-start.js';

/** What a DICOM file says about its image. Values that are absent are null. */
export interface DicomHeader {
  /** SeriesInstanceUID with the study and the patient, because some tools give series of several patients the same UID. */
  readonly seriesUid: string | null;
  readonly studyUid: string | null;
  /** PatientID, or the patient's name if there is none; empty if neither is given. */
  readonly patient: string;
  readonly instanceUid: string | null;
  /** Empty if it is not given. */
  readonly sopClass: string;
  /** `CT`, `MR`. */
  readonly modality: string | null;
  readonly seriesNumber: number | null;
  /** Empty if it is not given. */
  readonly description: string;
  readonly instanceNumber: number | null;
  readonly rows: number | null;
  readonly columns: number | null;
  readonly frames: number;
  /** ImagePositionPatient: three numbers, in mm. */
  readonly position: readonly number[] | null;
  /** ImageOrientationPatient: six numbers. */
  readonly orientation: readonly number[] | null;
}

/** SOP classes that are not images: doses, structures, plans, segmentations, reports, waveforms, DICOMDIR. */
const objectClass =
  /^1\.2\.840\.10008\.(1\.3\.10|5\.1\.4\.1\.1\.(481\.(?!1$)[\d.]+|66(\.\d+)*|67|68\.\d+|88\.\d+|11\.\d+|9\.[\d.]+|104\.\d+|78\.\d+|90\.\d+)|5\.1\.4\.34\.[\d.]+)$/;

/** Whether a header is that of an image, or of an object without a SOP class, which may be an image. */
export const isImage = ({ sopClass }: DicomHeader): boolean => !objectClass.test(sopClass);

/** SOP classes of segmentations with voxels: SEG and LABELMAP, but not surfaces. */
const segmentationClass = /^1\.2\.840\.10008\.5\.1\.4\.1\.1\.66\.[47]$/;

/** Whether a header is that of a segmentation. */
export const isSegmentation = ({ sopClass }: DicomHeader): boolean => segmentationClass.test(sopClass);

/** Maximum number of bytes read of a text: DICOM allows 64 characters. */
const maxText = 1024;

/**
 * Decodes a text.
 * @param characterSet SpecificCharacterSet; null for the default one, which is read as Latin-1
 * @param vr PN for names, each part of which begins in the first character set
 * @returns null for an unknown character set, and for bytes that are invalid in it
 */
export function decodeText(characterSet: string | null, bytes: Uint8Array, vr = 'LO'): string | null {
  try {
    const text = convertBytes(characterSet || 'ISO_IR 100', bytes, { vr });
    return text.includes('\ufffd') ? null : text;
  } catch {
    return null;
  }
}

/**
 * Reads a text for display, decoded from its character set.
 * @param root the data set that names the character set, for an item of a sequence
 */
export function textOf(set: DataSet, tag: string, root: DataSet = set): string {
  const element = set.elements[tag];
  if (!element) return '';
  const { dataOffset, length } = element;
  const bytes = set.byteArray.subarray(dataOffset, dataOffset + Math.min(length, maxText));
  const text = decodeText(root.string('x00080005') ?? null, bytes) ?? Buffer.from(bytes).toString('latin1');
  return text.replaceAll('\0', '').trim();
}

/** The numbers of an element; null if their count is not `length`. */
function vectorOf(set: DataSet, tag: string, length: number): number[] | null {
  const numbers = numbersOf(set, tag);
  return numbers?.length === length ? numbers : null;
}

/** Reads the header from a data set. */
export function headerOf(set: DataSet): DicomHeader {
  const uid = wordsOf(set, 'x0020000e');
  const patient = textOf(set, 'x00100020') || textOf(set, 'x00100010');
  return {
    seriesUid: uid && [uid, wordsOf(set, 'x0020000d'), patient].join(' '),
    studyUid: wordsOf(set, 'x0020000d'),
    patient,
    instanceUid: wordsOf(set, 'x00080018'),
    // A DICOMDIR has its class only in the file meta information.
    sopClass: wordsOf(set, 'x00080016') ?? wordsOf(set, 'x00020002') ?? '',
    modality: wordsOf(set, 'x00080060'),
    seriesNumber: numberOf(set, 'x00200011'),
    description: textOf(set, 'x0008103e'),
    instanceNumber: numberOf(set, 'x00200013'),
    rows: set.uint16('x00280010') ?? null,
    columns: set.uint16(columns) ?? null,
    frames: numberOf(set, 'x00280008') ?? 1,
    position: vectorOf(set, 'x00200032', 3),
    orientation: vectorOf(set, 'x00200037', 6),
  };
}

/** Columns, the last element that is needed. */
const columns = 'x00280011';

/** Bytes of a file that are read: at first, and if the header is longer. Private elements may take megabytes. */
const [firstPiece, longPiece] = [16 * 1024, 4 << 20];

/** The beginning of a file, with what it shows. */
interface FileStart {
  /** Its first bytes, unpacked if it is a gzip file. */
  readonly bytes: Buffer;
  /** Null if the file is not DICOM or its header is unreadable. */
  readonly dicom: DicomHeader | null;
  /** Whether a DICOM file is known to contain all its pixels. */
  readonly isWhole: boolean;
}

/** How many bytes are returned, to recognise formats by. */
const maxStart = 1024;

/** Examines the first bytes of a file. `isCut` tells whether its header continues after them. */
function startOf(read: Buffer): { readonly start: Omit<FileStart, 'isWhole'>; readonly isCut: boolean } {
  const bytes = unzippedIfPossible(read);
  const set = parseDicomStart(bytes, { until: columns })?.set ?? null;
  const isEmpty = set === null || Object.keys(set.elements).length === 0;
  const isCut =
    read.length === firstPiece && set !== null && !set.elements[columns] && !set.elements[pixelData];
  const dicom = isEmpty ? null : headerOf(set);
  return { start: { bytes: Buffer.from(bytes.subarray(0, maxStart)), dicom }, isCut };
}

/** Reads the beginning of a file, and its header if it is DICOM. @throws the system's error */
export async function readStart(file: string): Promise<FileStart> {
  await using handle = await open(file);
  let bytes = await readBytes(handle, firstPiece);
  const first = startOf(bytes);
  if (first.isCut) bytes = await readBytes(handle, longPiece);
  const { start } = first.isCut ? startOf(bytes) : first;
  if (start.dicom === null) return { ...start, isWhole: false };
  const { size } = await handle.stat();
  const end = await readBytes(handle, 8, Math.max(0, size - 8));
  return { ...start, isWhole: hasAllPixels(bytes, size, end) };
}
