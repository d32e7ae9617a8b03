import path from 'node:path';

/**
 * What the headers of image files say of the voxels: how many `bytes` there are, after `skip` bytes that do not count,
 * from `start` of this file on or in the files of `names`. `isPacked` where the voxels alone are packed. `bytes` is NaN
 * where it is not certain, as of numbers written as text. Each function gives undefined for what is no such header.
 */
export const HEADERS = {
  '.nii': readNifti,
  '.nii.gz': readNifti,
  '.hdr': (bytes, file) => ({ ...readNifti(bytes), names: [`${path.basename(file).slice(0, -4)}.img`] }),
  '.mha': readMeta,
  '.mhd': readMeta,
  '.nrrd': readNrrd,
  '.nhdr': readNrrd,
  '.mgh': readMgh,
  '.mgz': readMgh,
};

/** NIfTI 1 and 2, and Analyze: https://nifti.nimh.nih.gov */
function readNifti(bytes) {
  if (bytes.length < 348) return undefined;
  const isLittle = [348, 540].includes(bytes.readInt32LE(0));
  const short = (at) => (isLittle ? bytes.readInt16LE(at) : bytes.readInt16BE(at));
  const long = (at) => Number(isLittle ? bytes.readBigInt64LE(at) : bytes.readBigInt64BE(at));
  const isSecond = short(isLittle ? 0 : 2) === 540;
  if (!isSecond && short(isLittle ? 0 : 2) !== 348) return undefined;
  const size = (axis) => (isSecond ? long(16 + 8 * axis) : short(40 + 2 * axis));
  const sizes = [1, 2, 3, 4, 5, 6, 7].filter((axis) => axis <= size(0)).map(size);
  const skip = isSecond ? long(168) : isLittle ? bytes.readFloatLE(108) : bytes.readFloatBE(108);
  return { bytes: (product(sizes) * short(isSecond ? 14 : 72)) / 8, skip };
}

/** MetaImage: https://itk.org/Wiki/ITK/MetaIO/Documentation */
function readMeta(bytes) {
  const text = bytes.toString('latin1');
  const [line, data] = /^ElementDataFile *= *(.*?) *\r?\n?$/m.exec(text) ?? [];
  if (line === undefined) return undefined;
  const end = text.indexOf('\n', text.indexOf(line)) + 1 || text.length;
  const value = (key) => new RegExp(`^${key} *= *(.*?) *\\r?$`, 'm').exec(text.slice(0, end))?.[1];
  const isText = /^f/i.test(value('BinaryData') ?? '');
  const channels = Number(value('ElementNumberOfChannels') ?? 1);
  return {
    bytes: isText
      ? Number.NaN
      : product(numbersOf(value('DimSize'))) * channels * sizeOf(value('ElementType')),
    skip: Number(value('HeaderSize') ?? 0),
    isPacked: /^t/i.test(value('CompressedData') ?? ''),
    ...(data === 'LOCAL' ? { start: end } : { names: namesOf(data, text.slice(end)) }),
  };
}

/** NRRD: https://teem.sourceforge.net/nrrd/format.html */
function readNrrd(bytes) {
  const text = bytes.toString('latin1');
  if (!text.startsWith('NRRD')) return undefined;
  const blank = /\n\r?\n/.exec(text);
  const end = blank ? blank.index + blank[0].length : text.length;
  const value = (key) => new RegExp(`^${key}: *(.*?) *\\r?$`, 'im').exec(text.slice(0, end))?.[1];
  const data = value('data ?file');
  const isCertain = /^(raw|gz|gzip)$/i.test(value('encoding') ?? '') && !value('line ?skip');
  return {
    bytes: isCertain ? product(numbersOf(value('sizes'))) * sizeOf(value('type')) : Number.NaN,
    skip: Number(value('byte ?skip') ?? 0),
    isPacked: /^gz/i.test(value('encoding') ?? ''),
    ...(data === undefined ? { start: end } : { names: namesOf(data, text.split(/^data ?file:.*\n/im)[1]) }),
  };
}

/** FreeSurfer: https://surfer.nmr.mgh.harvard.edu/fswiki/FsTutorial/MghFormat */
function readMgh(bytes) {
  if (bytes.length < 284 || bytes.readInt32BE(0) !== 1) return undefined;
  const sizes = [4, 8, 12, 16].map((at) => bytes.readInt32BE(at));
  return { bytes: product(sizes) * { 0: 1, 1: 4, 3: 4, 4: 2 }[bytes.readInt32BE(20)], skip: 284 };
}

function product(numbers) {
  return numbers.reduce((all, number) => all * number, 1);
}

function numbersOf(text = 'none') {
  return text.split(/\s+/).map(Number);
}

/** Bytes of one value, by the many names that its type has: `MET_USHORT`, `unsigned short int`, `uint16_t`. */
function sizeOf(type = '') {
  if (/double|64|long.?long/i.test(type)) return 8;
  if (/short|16/i.test(type)) return 2;
  if (/char|8/i.test(type)) return 1;
  return /float|int|long|32/i.test(type) ? 4 : Number.NaN;
}

/** The data files: one name, a list of names after the header's last line, or a pattern such as `slice%03d.raw 1 20 1`. */
function namesOf(value, rest = '') {
  if (/^LIST\b/.test(value))
    return rest
      .split(/\r?\n/)
      .map((name) => name.trim())
      .filter(Boolean);
  const [, pattern, first, last, step = 1] = /^(\S*%0?\d*d\S*) +(\d+) +(\d+)(?: +(\d+))?/.exec(value) ?? [];
  if (pattern === undefined) return [value];
  const count = Math.min(10_000, Math.floor((last - first) / step) + 1);
  return Array.from({ length: Math.max(0, count) }, (_, i) =>
    pattern.replace(/%(0?)(\d*)d/, (_match, zero, width) =>
      String(Number(first) + i * step).padStart(Number(width), zero || ' '),
    ),
  );
}
