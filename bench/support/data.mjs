import { randomFillSync } from 'node:crypto';
import { mkdir, open, readdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';

export const MiB = 2 ** 20;
export const GiB = 2 ** 30;

const block = 16 * MiB;

/** Writes a file through `write`, and closes it. */
async function writing(file, write) {
  const handle = await open(file, 'w');
  try {
    await write(handle);
  } finally {
    await handle.close();
  }
  return file;
}

const writeBlocks = (file, bytes, fill) =>
  writing(file, async (handle) => {
    for (let written = 0; written < bytes; written += block) {
      await handle.write(fill(), 0, Math.min(block, bytes - written));
    }
  });

/** A file that does not compress, like most volumes that are sent (`.nii.gz`). */
export const randomFile = (workshop, bytes) =>
  workshop.once(`random-${bytes}`, () => {
    const buffer = Buffer.alloc(block);
    return writeBlocks(path.join(workshop.root, `random-${bytes}.bin`), bytes, () => randomFillSync(buffer));
  });

/** A sparse file of zeros, which takes no room on the disk and is cheap to read: for rows where only the size matters. */
export const emptyFile = (workshop, bytes, part) =>
  workshop.once(`empty-${bytes}-${part}`, () =>
    writing(path.join(workshop.root, `empty-${bytes}-${part}.bin`), (handle) => handle.truncate(bytes)),
  );

/**
 * A raw volume of 16-bit voxels: half of it air without a signal, the rest smooth tissue under the noise of a
 * scanner, as a computed tomography comes. It deflates to a little over half.
 */
export const volumeFile = (workshop, bytes) =>
  workshop.once(`volume-${bytes}`, () => {
    const voxels = new Int16Array(block / 2);
    const side = 512;
    for (let index = 0; index < voxels.length; index += 1) {
      const x = (index % side) / side - 0.5;
      const y = (Math.floor(index / side) % side) / side - 0.5;
      const inside = x * x + y * y < 0.16;
      const noise = (Math.random() + Math.random() + Math.random() - 1.5) * 40;
      voxels[index] = inside ? 40 + 60 * Math.sin(9 * x) * Math.cos(7 * y) + noise : -1024;
    }
    const buffer = Buffer.from(voxels.buffer);
    return writeBlocks(path.join(workshop.root, `volume-${bytes}.raw`), bytes, () => buffer);
  });

/** A directory of files of one size that do not compress. */
export const randomFiles = (workshop, count, bytes) =>
  workshop.once(`files-${count}-${bytes}`, async () => {
    const directory = await workshop.directory('files');
    const buffer = Buffer.alloc(bytes);
    for (let index = 0; index < count; index += 1) {
      await writeFile(path.join(directory, `${String(index).padStart(6, '0')}.bin`), randomFillSync(buffer));
    }
    return directory;
  });

/** A directory of small text files, a hundred in each of its directories. */
export const smallFiles = (workshop, count) =>
  workshop.once(`small-${count}`, async () => {
    const directory = await workshop.directory('small');
    for (let index = 0; index < count; index += 1) {
      const part = path.join(directory, String(Math.floor(index / 100)).padStart(4, '0'));
      if (index % 100 === 0) await mkdir(part);
      await writeFile(path.join(part, `${index}.txt`), `case ${index}: volume ${index * 7} ml\n`.repeat(40));
    }
    return directory;
  });

/** Bytes of each line of a log file, its end included. */
export const lineLength = 60;

/** Lines `first` to `first + count - 1` of a log file. */
function lines(first, count) {
  const each = Array.from({ length: count }, (_, index) => {
    const number = String(first + index).padStart(8, '0');
    return `step ${number} of a long training run, loss 0.01234`.padEnd(lineLength - 1, '.');
  });
  return `${each.join('\n')}\n`;
}

/** A log of numbered lines. */
export const logFile = (workshop, count) =>
  workshop.once(`log-${count}`, () =>
    writing(path.join(workshop.root, `lines-${count}.log`), async (handle) => {
      const atOnce = 10_000;
      for (let done = 0; done < count; done += atOnce) {
        await handle.write(lines(done + 1, Math.min(atOnce, count - done)));
      }
    }),
  );

/** Removes the files of a directory. */
export async function emptyDirectory(directory) {
  const names = await readdir(directory);
  await Promise.all(names.map((name) => rm(path.join(directory, name))));
}
