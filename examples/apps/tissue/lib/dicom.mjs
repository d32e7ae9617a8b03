import { mkdtemp, open, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { readImageDicomFileSeriesNode } from '@itk-wasm/dicom';
import { endOfPixelData } from './dicom-trailer.mjs';
import { AppError } from './errors.mjs';

/** Reads the one DICOM series that a directory holds, in its spatial order. */
export async function readSeries(directory, log) {
  const files = await findSlices(directory);
  if (files.length === 0) throw new AppError(`${directory} holds no DICOM slices.`);
  const series = (await tryRead(files)) ?? (await readTrimmed(directory, files, log));
  if (series === undefined) throw new AppError(`${directory} holds DICOM files that cannot be read as one series of slices.`);
  // ITK reads the first series it finds; the others must not vanish in silence.
  const used = series.sortedFilenames.length;
  if (used < files.length) {
    throw new AppError(`${directory} holds ${files.length} DICOM files of which one series has ${used}: give each series its own directory.`);
  }
  return series.outputImage;
}

async function findSlices(directory) {
  const entries = await readdir(directory, { withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && !entry.name.startsWith('.')).map((entry) => path.join(directory, entry.name));
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

async function tryRead(files) {
  try {
    return await readImageDicomFileSeriesNode({ inputImages: files, singleSortedSeries: false });
  } catch {
    return undefined; // itk-wasm throws a bare number here: it says nothing that could be passed on
  }
}

/**
 * Some exporters leave bytes behind the pixel data, which the reader refuses and every viewer ignores. Such
 * slices are read from a copy without them. Nothing else is repaired: a slice left out would shift the others.
 */
async function readTrimmed(directory, files, log) {
  const scratch = await mkdtemp(path.join(tmpdir(), 'tissue-dicom-'));
  try {
    const replaced = [];
    for (const [index, file] of files.entries()) {
      const bytes = await readFile(file);
      const end = endOfPixelData(bytes);
      const excess = end === undefined ? 0 : bytes.length - end;
      const copy = path.join(scratch, `${String(index).padStart(6, '0')}.dcm`);
      await writeFile(copy, excess > 0 ? bytes.subarray(0, end) : bytes);
      if (excess > 0) log?.line(`${file}: ${excess} bytes after the pixel data are ignored`);
      replaced.push(copy);
    }
    // All of them are copied, so that all lie in one directory, which is what the reader is given to mount.
    return await tryRead(replaced);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}
