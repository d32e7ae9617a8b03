import { gunzipSync } from 'node:zlib';
import { gzipWithWords } from '../support/canary-volumes.js';

const encodings = ['utf8', 'utf16le'];

/** A word in each encoding, in one in big endian as well. */
const inAllEncodings = (word) =>
  Buffer.concat([
    ...encodings.map((each) => Buffer.from(word, each)),
    Buffer.from(word, 'utf16le').swap16(),
    Buffer.from(word),
  ]);

/** The texts of a header, as [offset, bytes]: in NIfTI-1, and in NIfTI-2. */
const texts = {
  348: [
    [4, 10],
    [14, 18],
    [148, 80],
    [228, 24],
    [328, 16],
  ],
  540: [
    [240, 80],
    [320, 24],
    [508, 16],
    [525, 15],
  ],
};

/** A file of NIfTI with a word in every text, in an extension before those that it has, and behind its voxels. */
function plantedNifti(bytes, word) {
  const isBig = [348, 540].includes(bytes.readInt32BE(0));
  const length = isBig ? bytes.readInt32BE(0) : bytes.readInt32LE(0);
  const header = Buffer.from(bytes.subarray(0, length));
  for (const [at, room] of texts[length]) header.fill(0, at, at + room).write(word.slice(0, room), at);
  const isSecond = length === 540;
  const offset = isSecond
    ? Number(isBig ? bytes.readBigInt64BE(168) : bytes.readBigInt64LE(168))
    : isBig
      ? bytes.readFloatBE(108)
      : bytes.readFloatLE(108);
  const isPair = bytes[isSecond ? 5 : 345] === 'i'.charCodeAt(0);
  const before = Math.max(offset, length + 4);
  const extension = Buffer.alloc(128);
  for (const [at, value] of [128, 6].entries())
    isBig ? extension.writeInt32BE(value, 4 * at) : extension.writeInt32LE(value, 4 * at);
  inAllEncodings(word).copy(extension, 8);
  const hasOthers = bytes.length > length && bytes[length] !== 0;
  const others = hasOthers ? bytes.subarray(length + 4, before) : Buffer.alloc(0);
  const moved = length + 4 + extension.length + others.length;
  if (isPair) return Buffer.concat([header, Buffer.from([1, 0, 0, 0]), extension, others]);
  if (isSecond)
    isBig ? header.writeBigInt64BE(BigInt(moved), 168) : header.writeBigInt64LE(BigInt(moved), 168);
  else isBig ? header.writeFloatBE(moved, 108) : header.writeFloatLE(moved, 108);
  return Buffer.concat([
    header,
    Buffer.from([1, 0, 0, 0]),
    extension,
    others,
    bytes.subarray(before),
    inAllEncodings(word),
  ]);
}

/** A file of MGH with a word in the unused bytes of its header, and behind its voxels. */
function plantedFreeSurfer(bytes, word) {
  const header = Buffer.from(bytes.subarray(0, 284));
  header.fill(0, 90);
  inAllEncodings(word).copy(header, 100);
  return Buffer.concat([header, bytes.subarray(284), inAllEncodings(word)]);
}

/** A real volume, `.nii`, `.nii.gz` or `.mgz`, with a word in every text, packed as before. */
export function plantedVolume(name, content, word) {
  const isPacked = name.endsWith('z');
  const bytes = isPacked ? gunzipSync(content) : content;
  const planted = /\.mg[hz]$/.test(name) ? plantedFreeSurfer(bytes, word) : plantedNifti(bytes, word);
  return isPacked ? gzipWithWords(planted, word) : planted;
}
