import { closeSync, constants, openSync, readSync } from 'node:fs';
import { open } from 'node:fs/promises';
import type { DataSet } from 'dicom-parser';
import {
  isGzip,
  numberOf,
  numbersOf,
  parseDicomStart,
  pixelData,
  unzippedStart,
  wordsOf,
} from './dicom-start.js';

/** What a DICOM file says of the image in it. Null for what it does not contain. */
export interface DicomHeader {
  /** SeriesInstanceUID, with the study and the patient: careless tools give the series of several patients one UID. */
  readonly seriesUid: string | null;
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
  /** Position of the first voxel, in mm: three numbers (ImagePositionPatient). */
  readonly position: readonly number[] | null;
  /** Directions of its rows and columns: six numbers (ImageOrientationPatient). */
  readonly orientation: readonly number[] | null;
}

/** SOP classes of objects that are not images: doses, structures, plans, segmentations, reports, waveforms, DICOMDIR. */
const objectClass =
  /^1\.2\.840\.10008\.(1\.3\.10|5\.1\.4\.1\.1\.(481\.(?!1$)[\d.]+|66(\.\d+)*|67|68\.\d+|88\.\d+|11\.\d+|9\.[\d.]+|104\.\d+|78\.\d+|90\.\d+)|5\.1\.4\.34\.[\d.]+)$/;

/** Whether a header is that of an image. One that names no class may be one. */
export const isImage = ({ sopClass }: DicomHeader): boolean => !objectClass.test(sopClass);

/** SOP classes of voxels with labels: segments of their own, and one map of labels. Those of surfaces have no voxels. */
const segmentationClass = /^1\.2\.840\.10008\.5\.1\.4\.1\.1\.66\.[47]$/;

/** Whether a header is that of a segmentation, which holds all of its segments in one file. */
export const isSegmentation = ({ sopClass }: DicomHeader): boolean => segmentationClass.test(sopClass);

/** Encodings of texts, by SpecificCharacterSet. */
const encodings: Readonly<Record<string, string>> = {
  ISO_IR_192: 'utf-8',
  ISO_IR_100: 'latin1',
  ISO_IR_101: 'iso-8859-2',
  ISO_IR_109: 'iso-8859-3',
  ISO_IR_110: 'iso-8859-4',
  ISO_IR_126: 'iso-8859-7',
  ISO_IR_127: 'iso-8859-6',
  ISO_IR_138: 'iso-8859-8',
  ISO_IR_144: 'iso-8859-5',
  ISO_IR_148: 'windows-1254',
  ISO_IR_166: 'windows-874',
  ISO_IR_13: 'shift_jis',
  ISO_2022_IR_87: 'iso-2022-jp',
  ISO_2022_IR_149: 'euc-kr',
  GB18030: 'gb18030',
  GBK: 'gbk',
};

/** The encoding of texts by a SpecificCharacterSet, of which the first known value counts; null if none is known. */
export function encodingOf(characterSet: string): string | null {
  const names = characterSet.split('\\').map((each) => each.trim().replaceAll(' ', '_'));
  return names.flatMap((each) => encodings[each] ?? [])[0] ?? null;
}

/** Most bytes of a text: DICOM allows 64 characters. */
const maxText = 1024;

/**
 * A text for a person, in its character set.
 * @param root the data set that names the character set, for an item of a sequence
 */
export function textOf(set: DataSet, tag: string, root: DataSet = set): string {
  const element = set.elements[tag];
  if (!element) return '';
  const bytes = set.byteArray.subarray(element.dataOffset, element.dataOffset + element.length);
  // DICOM's own default is a part of latin1.
  const encoding = encodingOf(root.string('x00080005') ?? '') ?? 'latin1';
  return new TextDecoder(encoding).decode(bytes.subarray(0, maxText)).replaceAll('\0', '').trim();
}

/** The numbers of an element; null if there are not exactly this many. */
function vectorOf(set: DataSet, tag: string, length: number): number[] | null {
  const numbers = numbersOf(set, tag);
  return numbers?.length === length ? numbers : null;
}

/** Texts that the files of a series share, kept once: a study may have 100,000 files. */
const shared = new Map<string, string>();
/** Most texts that are kept. */
const maxShared = 10_000;

function once(text: string): string {
  const known = shared.get(text);
  if (known !== undefined) return known;
  if (shared.size < maxShared && text.length <= maxText) shared.set(text, text);
  return text;
}

/** What the elements of a file say of its image. */
export function headerOf(set: DataSet): DicomHeader {
  const uid = wordsOf(set, 'x0020000e');
  const modality = wordsOf(set, 'x00080060');
  return {
    seriesUid: uid && once([uid, wordsOf(set, 'x0020000d'), wordsOf(set, 'x00100020')].join(' ')),
    instanceUid: wordsOf(set, 'x00080018'),
    // The DICOMDIR names its class in the group that describes the file alone.
    sopClass: once(wordsOf(set, 'x00080016') ?? wordsOf(set, 'x00020002') ?? ''),
    modality: modality && once(modality),
    seriesNumber: numberOf(set, 'x00200011'),
    description: once(textOf(set, 'x0008103e')),
    instanceNumber: numberOf(set, 'x00200013'),
    rows: set.uint16('x00280010') ?? null,
    columns: set.uint16(columns) ?? null,
    frames: numberOf(set, 'x00280008') ?? 1,
    position: vectorOf(set, 'x00200032', 3),
    orientation: vectorOf(set, 'x00200037', 6),
  };
}

/** Columns of the image: what comes after them is not needed. */
const columns = 'x00280011';

/** How many bytes of a file are read at first; most headers are shorter. */
const firstPiece = 16 * 1024;
/** How many bytes are read of a file whose header is longer: private elements may take megabytes. */
const longPiece = 4 * 1024 * 1024;

function unzipped(bytes: Buffer): Buffer {
  try {
    return isGzip(bytes) ? unzippedStart(bytes) : bytes;
  } catch {
    return bytes;
  }
}

/** What the beginning of a file shows. */
interface FileStart {
  /** Its first bytes, unzipped if it is a gzip file. */
  readonly bytes: Buffer;
  /** Null for a file that is not DICOM, or whose header cannot be read. */
  readonly dicom: DicomHeader | null;
}

/** How many of the first bytes are returned: what formats are recognised by. */
const maxStart = 1024;

type Parser = typeof import('dicom-parser');

const loadParser = async (): Promise<Parser> => (await import('dicom-parser')).default;

/** What the first bytes of a file show, and whether its header goes on behind them. */
function startOf(parser: Parser, read: Buffer): { readonly start: FileStart; readonly isCut: boolean } {
  const bytes = unzipped(read);
  const set = parseDicomStart(parser, bytes, { until: columns })?.set ?? null;
  const isEmpty = set === null || Object.keys(set.elements).length === 0;
  const isCut =
    read.length === firstPiece && set !== null && !set.elements[columns] && !set.elements[pixelData];
  return {
    start: {
      bytes: Buffer.from(bytes.subarray(0, maxStart)),
      dicom: isEmpty || set === null ? null : headerOf(set),
    },
    isCut,
  };
}

/** Memory for reading that is not in use. */
const buffers: Buffer[] = [];

/**
 * Reads the beginning of a file, and its header if it is DICOM.
 * @throws the system's error
 */
export async function readStart(file: string): Promise<FileStart> {
  const parser = await loadParser();
  const handle = await open(file);
  const buffer = buffers.pop() ?? Buffer.allocUnsafe(firstPiece);
  try {
    const read = async (into: Buffer) =>
      into.subarray(0, (await handle.read(into, 0, into.length, 0)).bytesRead);
    const { start, isCut } = startOf(parser, await read(buffer));
    return isCut ? startOf(parser, await read(Buffer.allocUnsafe(longPiece))).start : start;
  } finally {
    buffers.push(buffer);
    await handle.close();
  }
}

/** `readStart`, which blocks the event loop meanwhile. */
function readStartSync(parser: Parser, file: string, buffer: Buffer): FileStart {
  const descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const read = (into: Buffer) => into.subarray(0, readSync(descriptor, into, 0, into.length, 0));
    const { start, isCut } = startOf(parser, read(buffer));
    return isCut ? startOf(parser, read(Buffer.allocUnsafe(longPiece))).start : start;
  } finally {
    closeSync(descriptor);
  }
}

/** Milliseconds for which reading may keep the event loop waiting beyond what is usual. */
const patience = 50;
/** Milliseconds for each file that are usual, and what one file of the pool gives back of the patience. */
const usual = 1;
const regained = 0.1;

/**
 * What reads the beginnings of many files, as `readStart` does. As long as the disk answers at once, files are read synchronously, since
 * the thread pool takes twenty times as long; those of a slow one, as on a network, are read by the pool, but for a few.
 * @param now milliseconds of a clock that never goes back
 */
export async function startReader(
  now = () => performance.now(),
): Promise<(file: string) => FileStart | Promise<FileStart>> {
  const parser = await loadParser();
  const buffer = Buffer.allocUnsafe(firstPiece);
  let left = patience;
  return (file) => {
    if (left < 0) {
      left += regained;
      return readStart(file);
    }
    const began = now();
    const start = readStartSync(parser, file, buffer);
    left = Math.min(patience, left + usual - (now() - began));
    return start;
  };
}
