import { deflateSync, gzipSync } from 'node:zlib';

/** Volumes of 4 x 3 x 2 voxels in several formats, with a word in every place that holds text or nothing. */

export const voxels = Buffer.from(Int16Array.from({ length: 24 }, (_, at) => at - 7).buffer);

/** Packs with a name, a comment, a time and an extra field in the header. */
export function gzipWithWords(bytes: Buffer, word: string): Buffer {
  const packed = gzipSync(bytes);
  const head = Buffer.from(packed.subarray(0, 10));
  head[3] = 4 | 8 | 16;
  head.writeUInt32LE(1_700_000_000, 4);
  const extra = Buffer.from(`XX\0\0${word}`);
  extra.writeUInt16LE(word.length, 2);
  const length = Buffer.alloc(2);
  length.writeUInt16LE(extra.length);
  const texts = Buffer.from(`${word}.nii\0about ${word}\0`);
  return Buffer.concat([head, length, extra, texts, packed.subarray(10)]);
}

interface NiftiParts {
  readonly second?: boolean;
  readonly isBig?: boolean;
  readonly isPair?: boolean;
}

/** The header of NIfTI with words, and an extension. */
export function niftiHeader(
  word: string,
  { second = false, isBig = false, isPair = false }: NiftiParts = {},
) {
  const length = second ? 540 : 348;
  const header = Buffer.alloc(length);
  const short = (value: number, at: number) =>
    isBig ? header.writeInt16BE(value, at) : header.writeInt16LE(value, at);
  const int = (value: number, at: number) =>
    isBig ? header.writeInt32BE(value, at) : header.writeInt32LE(value, at);
  const float = (value: number, at: number) =>
    isBig ? header.writeFloatBE(value, at) : header.writeFloatLE(value, at);
  const double = (value: number, at: number) =>
    isBig ? header.writeDoubleBE(value, at) : header.writeDoubleLE(value, at);
  const long = (value: number, at: number) =>
    isBig ? header.writeBigInt64BE(BigInt(value), at) : header.writeBigInt64LE(BigInt(value), at);
  int(length, 0);
  for (const [at, each] of [3, 4, 3, 2, 1, 1, 1, 1].entries())
    if (second) long(each, 16 + 8 * at);
    else short(each, 40 + 2 * at);
  for (const [at, each] of [1, 2, 2, 3].entries())
    if (second) double(each, 104 + 8 * at);
    else float(each, 76 + 4 * at);
  short(4, second ? 12 : 70);
  short(16, second ? 14 : 72);
  for (const [row, at] of [0, 1, 2].map((each) => [each, 4 * each] as const)) {
    const values = [0, 1, 2, 3].map((column) => (column === row ? 2 + row : column === 3 ? -row : 0));
    for (const [column, value] of values.entries())
      if (second) double(value, 400 + 8 * (at + column));
      else float(value, 280 + 4 * (at + column));
  }
  if (second) int(1, 348);
  else short(1, 254);
  // Room for extensions before the voxels.
  const extension = Buffer.alloc(64);
  extension.write(`\u0001\0\0\0\u0030\0\0\0\u0006\0\0\0${word}`, 'latin1');
  const offset = isPair ? 0 : length + extension.length;
  if (second) long(offset, 168);
  else float(offset, 108);
  const texts = second
    ? ([
        [240, 80],
        [320, 24],
        [508, 16],
        [525, 15],
      ] as const)
    : ([
        [4, 10],
        [14, 18],
        [148, 80],
        [228, 24],
        [328, 16],
      ] as const);
  for (const [at, room] of texts) header.write(word.slice(0, room), at, 'latin1');
  const magic = `n${isPair ? 'i' : '+'}${second ? 2 : 1}\0`;
  header.write(second ? `${magic}\r\n\u001a\n` : magic, second ? 4 : 344, 'latin1');
  return Buffer.concat([header, extension]);
}

export const nifti = (word: string, parts: NiftiParts = {}): Buffer => {
  const data = Buffer.from(voxels);
  return Buffer.concat([niftiHeader(word, parts), parts.isBig ? data.swap16() : data, Buffer.from(word)]);
};

/** @param data the lines that say where the voxels are */
export const nrrdText = (word: string, encoding: string, data = ''): string =>
  `NRRD0004\n# made by ${word}\ntype: short\ndimension: 3\ncontent: ${word}\nspace: left-posterior-superior\n` +
  `sizes: 4 3 2\nspace directions: (2,0,0) (0,2,0) (0,0,3)\nkinds: domain domain domain\nendian: little\n` +
  `encoding: ${encoding}\nspace origin: (1,2,3)\nsample units: ${word}\n${data}patient:=${word}\n${word}key:=x\n\n`;

export const nrrd = (word: string, isPacked = false): Buffer =>
  isPacked
    ? Buffer.concat([
        Buffer.from(nrrdText(word, 'gzip')),
        gzipWithWords(Buffer.concat([voxels, Buffer.from(word)]), word),
      ])
    : Buffer.concat([Buffer.from(nrrdText(word, 'raw')), voxels, Buffer.from(word)]);

export const metaText = (word: string, data: string, more = ''): string =>
  `ObjectType = Image\nNDims = 3\nComment = ${word}\nBinaryData = True\nBinaryDataByteOrderMSB = False\n` +
  `TransformMatrix = 1 0 0 0 1 0 0 0 1\nOffset = 1 2 3\nElementSpacing = 2 2 3\nDimSize = 4 3 2\nName = ${word}\n` +
  `${word}Key = x\nModality = MET_MOD_${word}\nAnatomicalOrientation = RAI\n${more}ElementType = MET_SHORT\nElementDataFile = ${data}\n`;

export const metaImage = (word: string, isPacked = false): Buffer => {
  if (!isPacked) return Buffer.concat([Buffer.from(metaText(word, 'LOCAL')), voxels, Buffer.from(word)]);
  const packed = deflateSync(voxels);
  const more = `CompressedData = True\nCompressedDataSize = ${packed.length}\n`;
  return Buffer.concat([Buffer.from(metaText(word, 'LOCAL', more)), packed, Buffer.from(word)]);
};

/** With tags behind the voxels. */
export function freeSurfer(word: string): Buffer {
  const header = Buffer.alloc(284);
  for (const [at, each] of [1, 4, 3, 2, 1, 4].entries()) header.writeInt32BE(each, 4 * at);
  header.writeInt16BE(1, 28);
  for (const [at, each] of [2, 2, 3, -1, 0, 0, 0, 0, -1, 0, 1, 0, 5, 6, 7].entries())
    header.writeFloatBE(each, 30 + 4 * at);
  header.write(word, 200, 'latin1');
  const parameters = Buffer.alloc(20);
  for (const [at, each] of [2300, 0.15707963, 2.98, 900, 256].entries())
    parameters.writeFloatBE(each, 4 * at);
  return Buffer.concat([header, Buffer.from(voxels).swap16(), parameters, Buffer.from(`tag ${word}`)]);
}
