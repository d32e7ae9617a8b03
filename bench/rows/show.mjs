import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import path from 'node:path';
import { finished } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { remoteApp } from '../support/command.mjs';
import { interleave } from '../support/interleave.mjs';
import { atMost } from '../support/reach.mjs';

const [columns, rowsOfSlice, slices, labels] = [512, 512, 600, 25];

/** Writes a packed NIfTI volume of 0.8 x 0.8 x 1 mm, slice by slice. */
async function writeVolume(file, code, bytes, sliceOf, count) {
  const header = Buffer.alloc(352);
  header.writeInt32LE(348, 0);
  [3, columns, rowsOfSlice, count, 1, 1, 1, 1].forEach((size, at) => {
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
function ctSlices() {
  const slice = new Int16Array(columns * rowsOfSlice);
  let seed = 1;
  return () => {
    for (let at = 0; at < slice.length; at += 1) {
      seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
      const [x, y] = [(at % columns) - 256, Math.floor(at / columns) - 256];
      slice[at] = ((x / 200) ** 2 + (y / 140) ** 2 < 1 ? 40 : -1000) + (seed >>> 27);
    }
    return slice;
  };
}

/** Twenty-five balls. */
function labelSlices() {
  const slice = new Uint8Array(columns * rowsOfSlice);
  return (k) => {
    slice.fill(0);
    for (let label = 0; label < labels; label += 1) {
      const [x, y] = [256 + ((label % 5) - 2) * 60, 256 + (Math.floor(label / 5) - 2) * 40];
      const square = 30 ** 2 - (k - 80 - ((label * 37) % 12) * 40) ** 2;
      if (square <= 0) continue;
      for (let row = y - 30; row <= y + 30; row += 1)
        for (let column = x - 30; column <= x + 30; column += 1)
          if ((column - x) ** 2 + (row - y) ** 2 < square) slice[row * columns + column] = label + 1;
    }
    return slice;
  };
}

async function measure({ workshop, rounds }, scale, what) {
  const directory = await workshop.directory('ct');
  const [scan, mask] = ['scan.nii.gz', 'mask.nii.gz'].map((name) => path.join(directory, name));
  const count = Math.max(2, Math.round(slices * scale));
  await writeVolume(scan, 4, 2, ctSlices(), count);
  await writeVolume(mask, 2, 1, labelSlices(), count);
  const words = ['show', scan, mask, '--force', '--png', path.join(directory, 'sheet.png')];
  const show = () => remoteApp(workshop, words, { memory: what === 'memory' });
  if (what === 'memory') {
    const { memory } = await show();
    return { figure: memory, memory: [memory] };
  }
  const { figure } = await interleave(rounds, { figure: show });
  return { figure: figure.seconds, cpu: [figure.cpu] };
}

export const rows = [
  {
    name: 'show-ct',
    what: 'remote-app show --png, CT of 512 x 512 x 600 with 25 labels',
    yardstick: '-',
    unit: 's',
    reach: atMost(3, 's'),
    measure: (bench, scale = 1) => measure(bench, scale, 'time'),
  },
  {
    name: 'memory-show-ct',
    what: 'the same, resident memory',
    yardstick: '-',
    unit: 'MiB',
    reach: atMost(400, 'MiB'),
    measure: (bench, scale = 1) => measure(bench, scale, 'memory'),
  },
];
