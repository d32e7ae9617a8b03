import { deflateRawSync, gzipSync } from 'node:zlib';

/** SOP classes of objects that tests make. */
export const sopClasses = {
  CT: '1.2.840.10008.5.1.4.1.1.2',
  MR: '1.2.840.10008.5.1.4.1.1.4',
  enhancedMR: '1.2.840.10008.5.1.4.1.1.4.1',
  DX: '1.2.840.10008.5.1.4.1.1.1.1',
  RTSTRUCT: '1.2.840.10008.5.1.4.1.1.481.3',
  RTDOSE: '1.2.840.10008.5.1.4.1.1.481.2',
  RTPLAN: '1.2.840.10008.5.1.4.1.1.481.5',
  SEG: '1.2.840.10008.5.1.4.1.1.66.4',
  labelMap: '1.2.840.10008.5.1.4.1.1.66.7',
  SR: '1.2.840.10008.5.1.4.1.1.88.11',
  PR: '1.2.840.10008.5.1.4.1.1.11.1',
} as const;

const syntaxes = {
  implicit: '1.2.840.10008.1.2',
  explicit: '1.2.840.10008.1.2.1',
  bigEndian: '1.2.840.10008.1.2.2',
  deflated: '1.2.840.10008.1.2.1.99',
} as const;

export interface Slice {
  /** The last part of SeriesInstanceUID. */
  readonly series?: string;
  /** SeriesNumber. */
  readonly number?: number;
  readonly description?: string;
  readonly kind?: keyof typeof sopClasses;
  readonly modality?: string;
  /** InstanceNumber, by which the place along the normal and the SOPInstanceUID are chosen as well. */
  readonly image: number;
  /** Millimetres between the places of neighbouring images. */
  readonly spacing?: number;
  /** SpecificCharacterSet, and the encoded bytes of the description. */
  readonly charset?: string;
  /** PatientID. */
  readonly patient?: string;
  readonly frames?: number;
  readonly plane?: 'axial' | 'coronal' | 'sagittal';
  readonly hasPixels?: boolean;
  readonly syntax?: keyof typeof syntaxes;
  /** Whether it begins without a preamble and the group that describes the file. */
  readonly isBare?: boolean;
  readonly isZipped?: boolean;
  /** Bytes of a private element before the image's own, as Siemens writes them. */
  readonly privateBytes?: number;
}

const directions = { axial: '1\\0\\0\\0\\1\\0', coronal: '1\\0\\0\\0\\0\\-1', sagittal: '0\\1\\0\\0\\0\\-1' };
const places = {
  axial: (at: number) => `0\\0\\${at}`,
  coronal: (at: number) => `0\\${at}\\0`,
  sagittal: (at: number) => `${at}\\0\\0`,
};

type Element = readonly [tag: number, vr: string, value: Buffer | string];

function encoded([tag, vr, given]: Element, isExplicit: boolean, isBig: boolean): Buffer {
  const raw = typeof given === 'string' ? Buffer.from(given, 'latin1') : given;
  const padding = Buffer.from(vr === 'UI' || vr.startsWith('O') ? '\0' : ' ');
  const value = raw.length % 2 === 1 ? Buffer.concat([raw, padding]) : raw;
  const short = (number: number) => {
    const bytes = Buffer.alloc(2);
    return isBig ? bytes.fill(0, bytes.writeUInt16BE(number)) : bytes.fill(0, bytes.writeUInt16LE(number));
  };
  const long = (number: number) => {
    const bytes = Buffer.alloc(4);
    return isBig ? bytes.fill(0, bytes.writeUInt32BE(number)) : bytes.fill(0, bytes.writeUInt32LE(number));
  };
  const head = [short(tag >>> 16), short(tag & 0xffff)];
  if (!isExplicit) return Buffer.concat([...head, long(value.length), value]);
  const isLong = ['OB', 'OW', 'UN', 'SQ'].includes(vr);
  const length = isLong ? [short(0), long(value.length)] : [short(value.length)];
  return Buffer.concat([...head, Buffer.from(vr), ...length, value]);
}

/** A DICOM file, as scanners and archives write it: 16 x 16 pixels, whose bytes say which image it is. */
export function dicomFile(slice: Slice): Buffer {
  const { image, series = '1', kind = 'MR', frames = 1, plane = 'axial', spacing = 2 } = slice;
  const { syntax = 'explicit', hasPixels = !['RTSTRUCT', 'RTPLAN', 'SR', 'PR'].includes(kind) } = slice;
  const isBig = syntax === 'bigEndian';
  const isExplicit = syntax !== 'implicit';
  const uid = (last: string) => `1.2.826.0.1.3680043.10.511.${last}`;
  const number = (value: number) => {
    const bytes = Buffer.alloc(2);
    if (isBig) bytes.writeUInt16BE(value);
    else bytes.writeUInt16LE(value);
    return bytes;
  };
  const elements: Element[] = [
    ...(slice.charset ? [[0x00080005, 'CS', slice.charset] as const] : []),
    [0x00080008, 'CS', 'ORIGINAL\\PRIMARY'],
    [0x00080016, 'UI', sopClasses[kind]],
    [0x00080018, 'UI', uid(`${series}.${image}`)],
    [0x00080060, 'CS', slice.modality ?? (kind === 'enhancedMR' ? 'MR' : kind)],
    [0x0008103e, 'LO', slice.description ?? ''],
    ...(slice.patient ? [[0x00100020, 'LO', slice.patient] as const] : []),
    ...(slice.privateBytes ? [[0x00191010, 'OB', Buffer.alloc(slice.privateBytes)] as const] : []),
    [0x0020000e, 'UI', uid(series)],
    [0x00200011, 'IS', String(slice.number ?? 1)],
    [0x00200013, 'IS', String(image)],
    ...(hasPixels
      ? ([
          [0x00200032, 'DS', places[plane](image * spacing)],
          [0x00200037, 'DS', directions[plane]],
          [0x00280008, 'IS', String(frames)],
          [0x00280010, 'US', number(16)],
          [0x00280011, 'US', number(16)],
          [0x7fe00010, 'OW', Buffer.alloc(16 * 16 * 2 * frames, image)],
        ] as const)
      : []),
  ];
  const all = Buffer.concat(elements.map((each) => encoded(each, isExplicit, isBig)));
  const body = syntax === 'deflated' ? deflateRawSync(all) : all;
  const meta = encoded([0x00020010, 'UI', syntaxes[syntax]], true, false);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(meta.length);
  const head = [
    Buffer.alloc(128),
    Buffer.from('DICM'),
    encoded([0x00020000, 'UL', length], true, false),
    meta,
  ];
  const file = Buffer.concat(slice.isBare ? [body] : [...head, body]);
  return slice.isZipped ? gzipSync(file) : file;
}

/** So many slices of a series, by their file names. */
export function dicomSeries(
  count: number,
  slice: Omit<Slice, 'image'>,
  nameOf = (image: number) => `IM${String(image).padStart(4, '0')}`,
): Record<string, Buffer> {
  return Object.fromEntries(
    Array.from({ length: count }, (_, at) => [nameOf(at + 1), dicomFile({ ...slice, image: at + 1 })]),
  );
}
