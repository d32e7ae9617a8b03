import { open } from 'node:fs/promises';
import { constants, gunzipSync } from 'node:zlib';
import type { DataSet } from 'dicom-parser';
import { firstBytes } from '../../files/index.js';
import { isDicomStart, isGzip, parseDicomStart } from '../../volumes/index.js';

/** Bytes that are read to find out whether a file is DICOM. */
const sniffed = 256;

/** Whether a file on disk begins as DICOM does. False if it cannot be read: sending it then fails with the reason. */
const isDicomFile = (file: string): boolean => isDicomStart(firstBytes(file, sniffed));

/** How many of the files that paths name are DICOM. Nearly always all or none: the first one decides whether others are read. */
export const countSlices = (files: readonly string[]): number =>
  files[0] !== undefined && isDicomFile(files[0]) ? files.filter(isDicomFile).length : 0;

type Vector = readonly [x: number, y: number, z: number];

/** The parts of a DICOM header that matter for sending. Null for what it does not contain. */
export interface DicomHeader {
  /** SeriesInstanceUID, with the study and the patient: careless tools give the series of several patients one UID. */
  readonly seriesUid: string | null;
  readonly instanceUid: string | null;
  readonly sopClass: string;
  /** `CT`, `MR`; empty if it is not given. */
  readonly modality: string;
  readonly seriesNumber: number | null;
  readonly description: string;
  readonly instanceNumber: number | null;
  readonly rows: number | null;
  readonly columns: number | null;
  readonly frames: number;
  /** Position of the first voxel, in mm (ImagePositionPatient). */
  readonly position: Vector | null;
  /** Directions of its rows and columns (ImageOrientationPatient). */
  readonly orientation: readonly [rows: Vector, columns: Vector] | null;
}

/** Encodings of texts, by SpecificCharacterSet; DICOM's own default is a part of latin1. */
const encodings: Readonly<Record<string, string>> = {
  ISO_IR_192: 'utf-8',
  ISO_IR_101: 'iso-8859-2',
  ISO_IR_144: 'iso-8859-5',
  ISO_IR_13: 'shift_jis',
  ISO_2022_IR_87: 'iso-2022-jp',
  ISO_2022_IR_149: 'euc-kr',
  GB18030: 'gb18030',
  GBK: 'gbk',
};

/** A text for a person, in its character set. */
function textOf(set: DataSet, tag: string): string {
  const element = set.elements[tag];
  if (!element) return '';
  const bytes = set.byteArray.subarray(element.dataOffset, element.dataOffset + element.length);
  const names = (set.string('x00080005') ?? '').split('\\').map((each) => each.trim().replaceAll(' ', '_'));
  const encoding = names.flatMap((each) => encodings[each] ?? [])[0] ?? 'latin1';
  return new TextDecoder(encoding).decode(bytes).replaceAll('\0', '').trim();
}

/** The numbers in a text such as `-1\\0\\2.5`; null if there are not exactly this many. */
function numbersOf(words: string | undefined, count: number): number[] | null {
  const numbers = (words ?? '').split('\\').map((each) => (each.trim() === '' ? Number.NaN : Number(each)));
  return numbers.length === count && numbers.every(Number.isFinite) ? numbers : null;
}

const numberOf = (words: string | undefined): number | null => numbersOf(words, 1)?.[0] ?? null;

/** Texts that the files of a series share, kept once: a study may have 100,000 files. */
const shared = new Map<string, string>();
/** Most texts that are kept. */
const maxShared = 10_000;

function once(text: string): string {
  const known = shared.get(text);
  if (known !== undefined) return known;
  if (shared.size < maxShared) shared.set(text, text);
  return text;
}

function headerOf(set: DataSet): DicomHeader {
  const at = numbersOf(set.string('x00200032'), 3);
  const along = numbersOf(set.string('x00200037'), 6);
  const uid = set.string('x0020000e');
  return {
    seriesUid: uid ? once([uid, set.string('x0020000d'), set.string('x00100020')].join(' ')) : null,
    instanceUid: set.string('x00080018') || null,
    // The DICOMDIR names its class in the group that describes the file alone.
    sopClass: once(set.string('x00080016') ?? set.string('x00020002') ?? ''),
    modality: once(set.string('x00080060') ?? ''),
    seriesNumber: numberOf(set.string('x00200011')),
    description: once(textOf(set, 'x0008103e')),
    instanceNumber: numberOf(set.string('x00200013')),
    rows: set.uint16('x00280010') ?? null,
    columns: set.uint16('x00280011') ?? null,
    frames: numberOf(set.string('x00280008')) ?? 1,
    position: at && (at as unknown as Vector),
    orientation: along && [along.slice(0, 3) as unknown as Vector, along.slice(3) as unknown as Vector],
  };
}

/** The last element that is read: what comes after it are voxels. */
const pixelData = 'x7fe00010';
/** Columns of the image. If these were read, the rest of a truncated header is not needed. */
const columns = 'x00280011';

/** How many bytes of a file are read at first; most headers are shorter. */
const firstPiece = 16 * 1024;
/** How many bytes are read of a file whose header is longer: private elements may take megabytes. */
const longPiece = 4 * 1024 * 1024;

/** Bytes of a data set whose beginning alone was read. */
const partly = { finishFlush: constants.Z_SYNC_FLUSH } as const;

function unzipped(bytes: Buffer): Buffer | null {
  try {
    return gunzipSync(bytes, partly);
  } catch {
    return null;
  }
}

/** What the beginning of a file shows. */
export interface FileStart {
  /** Its first bytes, unzipped if it is a gzip file. */
  readonly bytes: Buffer;
  /** Null for a file that is not DICOM, or whose header cannot be read. */
  readonly dicom: DicomHeader | null;
}

/** How many of the first bytes are returned: what formats are recognised by. */
const maxStart = 1024;

/** Memory for reading that is not in use. */
const buffers: Buffer[] = [];

/**
 * Reads the beginning of a file, and its header if it is DICOM.
 * @throws the system's error
 */
export async function readStart(file: string): Promise<FileStart> {
  const parser = await import('dicom-parser').then((module) => module.default);
  const handle = await open(file);
  const buffer = buffers.pop() ?? Buffer.allocUnsafe(firstPiece);
  try {
    const read = async (into: Buffer) =>
      into.subarray(0, (await handle.read(into, 0, into.length, 0)).bytesRead);
    const plain = (piece: Buffer) => (isGzip(piece) ? (unzipped(piece) ?? piece) : piece);
    const first = await read(buffer);
    let bytes = plain(first);
    let elements = parseDicomStart(parser, bytes)?.set ?? null;
    const isCut = elements !== null && !elements.elements[columns] && !elements.elements[pixelData];
    if (isCut && first.length === firstPiece) {
      bytes = plain(await read(Buffer.allocUnsafe(longPiece)));
      elements = parseDicomStart(parser, bytes)?.set ?? null;
    }
    const isEmpty = elements === null || Object.keys(elements.elements).length === 0;
    return {
      bytes: Buffer.from(bytes.subarray(0, maxStart)),
      dicom: isEmpty || elements === null ? null : headerOf(elements),
    };
  } finally {
    buffers.push(buffer);
    await handle.close();
  }
}
