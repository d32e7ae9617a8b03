import { copyFile, mkdtemp, open, readdir, rm, stat, truncate } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { readImageDicomFileSeriesNode } from '@itk-wasm/dicom';
import { bytesAfterPixels } from './dicom-trailer.mjs';
import { AppError } from './errors.mjs';
import { quietly } from './quietly.mjs';

/** Reads the one DICOM series that a directory holds, in its spatial order. */
export async function readSeries(directory, log) {
  const files = await findSlices(directory);
  if (files.length === 0) throw new AppError(`${directory} holds no DICOM slices.`);
  const series = await readTrimmed(files, log);
  if (series === undefined)
    throw new AppError(`${directory} holds DICOM files that cannot be read as one series of slices.`);
  // ITK reads the first series that it finds; the others must not be ignored without a message.
  const used = series.sortedFilenames.length;
  if (used < files.length) {
    throw new AppError(
      `${directory} holds ${files.length} DICOM files of which one series has ${used}: give each series its own directory.`,
    );
  }
  return series.outputImage;
}

async function findSlices(directory) {
  const entries = await readdir(directory, { withFileTypes: true });
  const files = entries
    .filter((entry) => entry.isFile() && !entry.name.startsWith('.'))
    .map((entry) => path.join(directory, entry.name));
  const slices = [];
  for (const file of files.sort()) {
    if (path.basename(file).toUpperCase() !== 'DICOMDIR' && (await isDicom(file))) slices.push(file);
  }
  return slices;
}

/** A DICOM file has the letters DICM after its preamble of 128 bytes. */
async function isDicom(file) {
  const handle = await open(file);
  try {
    const { bytesRead, buffer } = await handle.read(Buffer.alloc(4), 0, 4, 128);
    return bytesRead === 4 && buffer.toString('latin1') === 'DICM';
  } finally {
    await handle.close();
  }
}

/**
 * Some exporters leave bytes behind the pixel data, which the reader refuses and every viewer ignores. Such
 * slices are read from a copy without them. Nothing else is repaired: a slice left out would shift the others.
 */
async function readTrimmed(files, log) {
  const excess = await Promise.all(files.map(bytesAfterPixels));
  if (excess.every((count) => count === 0)) return tryRead(files);
  const scratch = await mkdtemp(path.join(tmpdir(), 'tissue-dicom-'));
  try {
    // All of them are copied, because the reader mounts the directory that contains them.
    const copies = files.map((_, index) => path.join(scratch, `${String(index).padStart(6, '0')}.dcm`));
    for (const [index, file] of files.entries()) {
      await copyFile(file, copies[index]);
      if (excess[index] === 0) continue;
      const { size } = await stat(file);
      await truncate(copies[index], size - excess[index]);
      log?.line(`  ${path.basename(file)}: ${excess[index]} bytes after the pixel data are ignored`);
    }
    return await tryRead(copies);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

async function tryRead(files) {
  try {
    return await quietly(() =>
      readImageDicomFileSeriesNode({ inputImages: files, singleSortedSeries: false }),
    );
  } catch {
    return undefined; // itk-wasm throws a bare number here: it says nothing that could be passed on
  }
}
