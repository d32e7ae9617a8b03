import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { PixelFormat } from './dicom-pixels.js';
import { decodeLosslessJpeg } from './jpeg-lossless.js';
import { VolumeError } from './volume.js';

/** What the compressed pixels of a frame must decode to. */
export type Frame = Pick<
  PixelFormat,
  'name' | 'syntax' | 'rows' | 'columns' | 'samples' | 'bitsAllocated' | 'photometric'
>;

/** The values of one frame, pixel by pixel. */
export interface Samples {
  readonly data: Uint8Array | Uint16Array | Uint32Array;
  /** Number of significant low bits of each value. */
  readonly bits: number;
  /** Whether the decoder has already converted colours to RGB. */
  readonly isRgb?: boolean;
}

type Decode = (bytes: Buffer, frame: Frame) => Samples | Promise<Samples>;

const damaged = ({ name }: Frame): VolumeError =>
  new VolumeError(`The compressed pixels of ${name} are damaged: copy it again from the original.`);

const arrays = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array };

function typed(frame: Frame, bytes: Uint8Array, width: number): Samples['data'] {
  const Kind = arrays[width as keyof typeof arrays];
  if (!Kind || bytes.length !== frame.rows * frame.columns * frame.samples * width) throw damaged(frame);
  return new Kind(bytes.slice().buffer);
}

/** RLE: one segment for each byte of each sample, highest byte first, packed as PackBits does (PS3.5, annex G). */
function decodeRle(bytes: Buffer, frame: Frame): Samples {
  const width = frame.bitsAllocated / 8;
  const pixels = frame.rows * frame.columns;
  const segments = bytes.length < 64 ? 0 : bytes.readUInt32LE(0);
  // Two bytes become 128 at most.
  if (segments !== width * frame.samples || pixels * segments > bytes.length * 64) throw damaged(frame);
  const starts = Array.from({ length: segments }, (_, index) => bytes.readUInt32LE(4 + index * 4));
  const all = new Uint8Array(pixels * segments);
  for (const [index, start] of starts.entries()) {
    const [sample, byte] = [Math.floor(index / width), index % width];
    const first = sample * width + (width - 1 - byte);
    const end = starts[index + 1] ?? bytes.length;
    if (unpackBits(bytes.subarray(start, end), all, first, segments) < pixels) throw damaged(frame);
  }
  return { data: typed(frame, all, width), bits: frame.bitsAllocated };
}

/** Unpacks one segment into every `step`th byte. @returns how many bytes were written */
function unpackBits(packed: Uint8Array, into: Uint8Array, first: number, step: number): number {
  const room = Math.ceil((into.length - first) / step);
  let [at, done] = [0, 0];
  while (at < packed.length && done < room) {
    const head = packed[at] ?? 0;
    at += 1;
    if (head === 128) continue;
    const isRun = head > 128;
    const count = Math.min(isRun ? 257 - head : Math.min(head + 1, packed.length - at), room - done);
    for (let index = 0; index < count; index += 1)
      into[first + (done + index) * step] = packed[isRun ? at : at + index] ?? 0;
    done += count;
    at += isRun ? 1 : count;
  }
  return done;
}

/** Whether a marker stands alone, without a length. */
const isAlone = (marker: number): boolean => marker === 0x01 || (marker >= 0xd0 && marker <= 0xd8);
/** Whether a marker starts a frame: C0 to CF except tables and arithmetic coding, and F7 for JPEG-LS. */
const isFrameStart = (marker: number): boolean =>
  (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)) || marker === 0xf7;

/** Reads and checks the header of a JPEG image before memory is allocated. @throws VolumeError for an unexpected size */
function jpegHeaderOf(bytes: Buffer, frame: Frame): { marker: number; precision: number } {
  let at = bytes[0] === 0xff && bytes[1] === 0xd8 ? 2 : bytes.length;
  while (at + 10 <= bytes.length && bytes[at] === 0xff) {
    const marker = bytes[at + 1] ?? 0;
    if (marker === 0xff) at += 1;
    else if (isAlone(marker)) at += 2;
    else if (isFrameStart(marker)) {
      const size = [bytes.readUInt16BE(at + 5), bytes.readUInt16BE(at + 7), bytes[at + 9]];
      const isExpected = size[0] === frame.rows && size[1] === frame.columns && size[2] === frame.samples;
      if (!isExpected) break;
      return { marker, precision: bytes[at + 4] ?? 0 };
    } else at += 2 + bytes.readUInt16BE(at + 2);
  }
  throw damaged(frame);
}

/**
 * Returns a function that uses a WebAssembly decoder, which is loaded on first use. After a failure it is loaded again, because
 * its memory may be corrupt.
 */
function reusable<Module>(load: () => Promise<Module>) {
  let loading: Promise<Module> | null = null;
  return async <Result>(use: (module: Module) => Result | Promise<Result>): Promise<Result> => {
    loading ??= load();
    try {
      return await use(await loading);
    } catch (cause) {
      loading = null;
      throw cause;
    }
  };
}

/** Silences a decoder, whose messages name no file. A decoder stores its state in this object, so each gets its own. */
const silent = () => ({ print: () => {}, printErr: () => {} });

const mozjpeg = reusable(async () => {
  const { default: decode, init } = await import('@jsquash/jpeg/decode.js');
  const program = createRequire(import.meta.url).resolve('@jsquash/jpeg/codec/dec/mozjpeg_dec.wasm');
  const warnings: string[] = [];
  await init({ ...silent(), wasmBinary: await readFile(program), printErr: (line) => warnings.push(line) });
  return { decode, warnings };
});

/** An Adobe marker which says that the components are red, green and blue. */
const adobeRgb = Buffer.from('ffee000e41646f626500640000000000', 'hex');

/** Marks a JPEG as RGB, as DICOM says: its JFIF marker would make the decoder assume YCbCr. */
function asRgb(bytes: Buffer): Buffer {
  const rest = Buffer.from(bytes.subarray(2));
  if (rest[1] === 0xe0) rest[1] = 0xef;
  return Buffer.concat([bytes.subarray(0, 2), adobeRgb, rest]);
}

function decodeJpeg(bytes: Buffer, frame: Frame): Promise<Samples> {
  const { marker, precision } = jpegHeaderOf(bytes, frame);
  if (marker > 0xc2 || precision !== 8) throw unreadable(frame.name, `JPEG of ${precision} bits`);
  return mozjpeg(async ({ decode, warnings }) => {
    const before = warnings.length;
    const { data: rgba } = await decode(frame.photometric === 'RGB' ? asRgb(bytes) : bytes);
    // The decoder fills missing parts with grey and reports a warning.
    if (warnings.slice(before).some((line) => !/extraneous/i.test(line))) throw damaged(frame);
    const data = new Uint8Array(frame.rows * frame.columns * frame.samples);
    for (let at = 0; at < data.length; at += 1)
      data[at] = rgba[Math.floor(at / frame.samples) * 4 + (at % frame.samples)] ?? 0;
    return { data, bits: 8, isRgb: true };
  });
}

function decodeLossless(bytes: Buffer, frame: Frame): Samples {
  if (jpegHeaderOf(bytes, frame).marker !== 0xc3) throw damaged(frame);
  const { data, precision } = decodeLosslessJpeg(bytes);
  return { data: precision > 8 ? data : Uint8Array.from(data), bits: precision };
}

const charls = reusable(async () => {
  const { default: load } = await import('@cornerstonejs/codec-charls/decodewasmjs');
  return load(silent());
});

const endOfImage = Buffer.of(0xff, 0xd9);

function decodeJpegLs(bytes: Buffer, frame: Frame): Promise<Samples> {
  const { precision } = jpegHeaderOf(bytes, frame);
  // The decoder would search a truncated image for its end for half a minute.
  if (!bytes.includes(endOfImage)) throw damaged(frame);
  return charls(({ JpegLSDecoder }) => {
    const decoder = new JpegLSDecoder();
    const data = typed(frame, decodedBy(decoder, bytes), precision > 8 ? 2 : 1);
    const isPlanar = frame.samples > 1 && decoder.getInterleaveMode() === 0;
    decoder.delete();
    return { data: isPlanar ? interleaved(data, frame.samples) : data, bits: precision };
  });
}

/** The bytes that a decoder returns. They are valid until the decoder is deleted. */
function decodedBy(decoder: WasmDecoder, bytes: Buffer): Uint8Array {
  decoder.getEncodedBuffer(bytes.length).set(bytes);
  decoder.decode();
  return decoder.getDecodedBuffer();
}

const openjpeg = reusable(async () => {
  const { default: load } = await import('@cornerstonejs/codec-openjpeg/decodewasmjs');
  return load(silent());
});

/** Checks the size in the first segment (SIZ) of a codestream, which may be wrapped in a JP2 file. */
function checkJpeg2000(bytes: Buffer, frame: Frame): void {
  const at = bytes.indexOf(Buffer.from([0xff, 0x4f, 0xff, 0x51]));
  if (at < 0 || at + 42 > bytes.length) throw damaged(frame);
  const [right, bottom] = [bytes.readUInt32BE(at + 8), bytes.readUInt32BE(at + 12)];
  const [left, top] = [bytes.readUInt32BE(at + 16), bytes.readUInt32BE(at + 20)];
  const isExpected =
    right - left === frame.columns &&
    bottom - top === frame.rows &&
    bytes.readUInt16BE(at + 40) === frame.samples;
  if (!isExpected) throw damaged(frame);
}

function decodeJpeg2000(bytes: Buffer, frame: Frame): Promise<Samples> {
  checkJpeg2000(bytes, frame);
  return openjpeg(({ J2KDecoder }) => {
    const decoder = new J2KDecoder();
    const decoded = decodedBy(decoder, bytes);
    const { bitsPerSample, isSigned } = decoder.getFrameInfo();
    const width = bitsPerSample > 8 ? 2 : 1;
    if (bitsPerSample > 16) throw unreadable(frame.name, `JPEG 2000 of ${bitsPerSample} bits`);
    const data = typed(frame, decoded, width);
    decoder.delete();
    // The library has already converted YBR_RCT and YBR_ICT. Signed values are extended to whole bytes.
    const isRgb = frame.photometric !== 'YBR_FULL';
    return { data, bits: isSigned ? width * 8 : bitsPerSample, isRgb };
  });
}

/** Converts planar samples to interleaved ones. */
export function interleaved<Data extends Samples['data']>(planes: Data, samples: number): Data {
  const data = planes.slice() as Data;
  const plane = planes.length / samples;
  for (let sample = 0; sample < samples; sample += 1)
    for (let at = 0; at < plane; at += 1) data[at * samples + sample] = planes[sample * plane + at] ?? 0;
  return data;
}

const decoders: Readonly<Record<string, Decode>> = {
  '1.2.840.10008.1.2.5': decodeRle,
  '1.2.840.10008.1.2.4.50': decodeJpeg,
  '1.2.840.10008.1.2.4.51': decodeJpeg,
  '1.2.840.10008.1.2.4.57': decodeLossless,
  '1.2.840.10008.1.2.4.70': decodeLossless,
  '1.2.840.10008.1.2.4.80': decodeJpegLs,
  '1.2.840.10008.1.2.4.81': decodeJpegLs,
  '1.2.840.10008.1.2.4.90': decodeJpeg2000,
  '1.2.840.10008.1.2.4.91': decodeJpeg2000,
  // High-Throughput JPEG 2000: lossless, lossless RPCL, and lossy.
  '1.2.840.10008.1.2.4.201': decodeJpeg2000,
  '1.2.840.10008.1.2.4.202': decodeJpeg2000,
  '1.2.840.10008.1.2.4.203': decodeJpeg2000,
};

/** Names of compressions that are not decoded, by transfer syntax prefix. */
const unknown: readonly (readonly [start: string, name: string])[] = [
  ['1.2.840.10008.1.2.4.10', 'MPEG'],
  ['1.2.840.10008.1.2.4.11', 'JPEG XL'],
  ['1.2.840.10008.1.2.4.20', 'HTJ2K as a stream (JPIP)'],
  ['1.2.840.10008.1.2.4.9', 'JPEG 2000 part 2, JPIP'],
];

const unreadable = (name: string, compression: string): VolumeError =>
  new VolumeError(
    `The pixels of ${name} are compressed in a way that cannot be read here (${compression}): decompress it, for example with gdcmconv --raw.`,
  );

/** The decoder of a transfer syntax. @throws VolumeError for a compression that cannot be read */
export function requireDecoder(name: string, syntax: string): Decode {
  const decode = decoders[syntax];
  if (decode) return decode;
  const compression = unknown.find(([start]) => syntax.startsWith(start))?.[1];
  throw unreadable(name, compression ?? `transfer syntax ${syntax}`);
}

/**
 * Decodes the compressed pixels of one frame.
 * @throws VolumeError for a compression that is not supported, and for damaged pixels
 */
export async function decodeFrame(bytes: Buffer, frame: Frame): Promise<Samples> {
  const decode = requireDecoder(frame.name, frame.syntax);
  try {
    return await decode(bytes, frame);
  } catch (cause) {
    // Decoders throw strings, and WebAssembly throws numbers; neither helps the user.
    throw cause instanceof VolumeError ? cause : damaged(frame);
  }
}
