import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { deflateSync, gzipSync } from 'node:zlib';
import { onTestFinished } from 'vitest';
import { temporary } from '../../../test/support/temporary.js';
import { VolumeError } from '../src/index.js';

/** An empty directory that is removed when the test ends. */
export async function workspace(): Promise<string> {
  const directory = await temporary();
  onTestFinished(() => directory[Symbol.asyncDispose]());
  return directory.path;
}

/** Writes a file below a directory, and returns its path. */
export async function write(directory: string, name: string, ...parts: (string | Buffer)[]): Promise<string> {
  const file = path.join(directory, name);
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(file, Buffer.concat(parts.map((part) => Buffer.from(part))));
  return file;
}

/** Types of values: how many bytes they have, their code in NIfTI, their names in NRRD and MetaImage. */
export const types = {
  uint8: { bytes: 1, nifti: 2, nrrd: 'uchar', meta: 'MET_UCHAR' },
  int8: { bytes: 1, nifti: 256, nrrd: 'signed char', meta: 'MET_CHAR' },
  uint16: { bytes: 2, nifti: 512, nrrd: 'unsigned short', meta: 'MET_USHORT' },
  int16: { bytes: 2, nifti: 4, nrrd: 'short', meta: 'MET_SHORT' },
  uint32: { bytes: 4, nifti: 768, nrrd: 'uint', meta: 'MET_UINT' },
  int32: { bytes: 4, nifti: 8, nrrd: 'int', meta: 'MET_INT' },
  uint64: { bytes: 8, nifti: 1280, nrrd: 'unsigned long long', meta: 'MET_ULONG_LONG' },
  int64: { bytes: 8, nifti: 1024, nrrd: 'int64', meta: 'MET_LONG_LONG' },
  float32: { bytes: 4, nifti: 16, nrrd: 'float', meta: 'MET_FLOAT' },
  float64: { bytes: 8, nifti: 64, nrrd: 'double', meta: 'MET_DOUBLE' },
} as const;
export type Type = keyof typeof types;

/** Numbers as the bytes of a type. */
export function bytesOf(values: readonly number[], type: Type, isBig = false): Buffer {
  const { bytes } = types[type];
  const buffer = Buffer.alloc(values.length * bytes);
  const view = new DataView(buffer.buffer, buffer.byteOffset);
  for (const [at, value] of values.entries()) {
    const from = at * bytes;
    if (type === 'float32') view.setFloat32(from, value, !isBig);
    else if (type === 'float64') view.setFloat64(from, value, !isBig);
    else if (bytes === 1) view.setUint8(from, value);
    else if (bytes === 2) view.setUint16(from, value, !isBig);
    else if (bytes === 4) view.setUint32(from, value, !isBig);
    else view.setBigInt64(from, BigInt(value), !isBig);
  }
  return buffer;
}

/** What a header of NIfTI says; the rest is 0. */
export interface NiftiHeader {
  readonly size: readonly number[];
  readonly type?: Type;
  /** The code of a type that is not in the table. */
  readonly code?: number;
  readonly isBig?: boolean;
  readonly isSecond?: boolean;
  readonly magic?: string;
  readonly pixelSizes?: readonly number[];
  readonly units?: number;
  readonly start?: number;
  readonly slope?: number;
  readonly intercept?: number;
  readonly sform?: readonly number[];
  /** b, c, d, then the place of the first voxel. */
  readonly qform?: readonly number[];
}

/** A header of NIfTI-1, NIfTI-2 or ANALYZE, with the bytes before the voxels. */
export function niftiHeader(given: NiftiHeader): Buffer {
  const { size, type = 'int16', isBig = false, isSecond = false } = given;
  const magic = given.magic ?? (isSecond ? 'n+2' : 'n+1');
  const length = magic === 'n+1' ? 352 : magic === 'n+2' ? 544 : isSecond ? 540 : 348;
  const header = Buffer.alloc(length);
  const view = new DataView(header.buffer, header.byteOffset);
  const short = (at: number, value: number) => view.setInt16(at, value, !isBig);
  const int = (at: number, value: number) => view.setInt32(at, value, !isBig);
  const long = (at: number, value: number) => view.setBigInt64(at, BigInt(value), !isBig);
  const real = (first: number, second: number, values: readonly number[]) => {
    for (const [index, value] of values.entries())
      if (isSecond) view.setFloat64(second + 8 * index, value, !isBig);
      else view.setFloat32(first + 4 * index, value, !isBig);
  };
  const code = given.code ?? types[type].nifti;
  int(0, isSecond ? 540 : 348);
  header.write(magic, isSecond ? 4 : 344, 'latin1');
  for (const [axis, count] of [size.length, ...size].entries())
    if (isSecond) long(16 + 8 * axis, count);
    else short(40 + 2 * axis, count);
  short(isSecond ? 12 : 70, code);
  real(76, 104, given.pixelSizes ?? [1, 1, 1, 1]);
  const start = given.start ?? (magic.includes('+') ? length : 0);
  if (isSecond) long(168, start);
  else real(108, 0, [start]);
  real(112, 176, [given.slope ?? 0, given.intercept ?? 0]);
  if (isSecond) int(500, given.units ?? 2);
  else header.writeUInt8(given.units ?? 2, 123);
  if (given.qform) {
    if (isSecond) int(344, 1);
    else short(252, 1);
    real(256, 352, given.qform);
  }
  if (given.sform) {
    if (isSecond) int(348, 1);
    else short(254, 1);
    real(280, 400, given.sform);
  }
  return header;
}

/** What a header of FreeSurfer says. */
export interface MghHeader {
  readonly size: readonly [number, number, number, number];
  readonly code: number;
  readonly spacing?: readonly number[];
  /** Directions of the axes, one after another, and the place of the middle. Without them, the volume is not placed. */
  readonly axes?: readonly number[];
  readonly centre?: readonly number[];
}

export function mghHeader({ size, code, spacing = [1, 1, 1], axes, centre = [0, 0, 0] }: MghHeader): Buffer {
  const header = Buffer.alloc(284);
  for (const [at, value] of [1, ...size, code].entries()) header.writeInt32BE(value, 4 * at);
  if (!axes) return header;
  header.writeInt16BE(1, 28);
  for (const [at, value] of [...spacing, ...axes, ...centre].entries())
    header.writeFloatBE(value, 30 + 4 * at);
  return header;
}

export const lines = (...each: readonly string[]): string => each.map((line) => `${line}\n`).join('');

export const gzip = (...parts: (string | Buffer)[]): Buffer =>
  gzipSync(Buffer.concat(parts.map((part) => Buffer.from(part))));
export const zlib = (bytes: Buffer): Buffer => deflateSync(bytes);

/** The numbers 0 to `count` - 1. */
export const counting = (count: number): number[] => Array.from({ length: count }, (_, at) => at);

/** The sentence with which something is refused. */
export const refusalOf = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => 'not refused',
    (error: Error) => {
      if (error instanceof VolumeError) return error.message;
      throw error;
    },
  );
