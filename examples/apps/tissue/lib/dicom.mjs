import { mkdtemp, open, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { readImageDicomFileSeriesNode } from '@itk-wasm/dicom';
import { TAG } from './dicom-elements.mjs';
import { AppError } from './errors.mjs';
import { quietly } from './quietly.mjs';
import { arrangeSlices, describeSlice } from './slices.mjs';

/** What exporters and file managers leave beside slices. */
const NO_SLICE = /\.(txt|md|json|xml|html?|csv|tsv|pdf|log|ini|inf)$|^Thumbs\.db$/i;
const PREAMBLE = Buffer.concat([Buffer.alloc(128), Buffer.from('DICM')]);

/**
 * Reads the one DICOM series that a directory holds, or a file with all its slices. The image library decodes the pixels;
 * where they lie and what they mean is taken from the headers, since the library reads on where slices are cut, missing
 * or there twice, and scales all of them as it scales the last one.
 */
export async function readSeries(source, log) {
  const name = path.basename(source);
  const slices = [];
  for (const file of await listSlices(source, log)) {
    // The elements are left out: they would keep the bytes of all files in memory.
    const { elements: _, ...slice } = describeSlice(await readFile(file), nameOf(file, source));
    slices.push({ file, ...slice });
  }
  if (slices.length === 0) throw new AppError(`${name} holds no DICOM slices.`);
  const other = slices.find(({ series }) => series !== slices[0].series);
  if (other || (slices.length > 1 && slices.some(({ frames }) => frames.length > 1)))
    throw new AppError(
      `${name} holds more than one DICOM series (${slices[0].name}, ${(other ?? slices[1]).name}): give each series its own directory.`,
    );
  const { ordered, ...place } = arrangeSlices(slices.flatMap(({ frames }) => frames));
  const read = await readPixels(slices, log);
  if (read?.frames.length !== ordered.length)
    throw new AppError(`${name} holds DICOM files that cannot be read as one series of slices.`);
  return { ...read.image, ...place, ...arrangePixels(read, ordered) };
}

/** Whether a single file is of DICOM: by the letters DICM after its preamble, or by its name. */
export async function isDicom(file) {
  if (/\.(dcm|dicom|ima)$/i.test(file)) return true;
  const handle = await open(file);
  try {
    const { buffer } = await handle.read(Buffer.alloc(4), 0, 4, 128);
    return buffer.toString('latin1') === 'DICM';
  } finally {
    await handle.close();
  }
}

/** Every file is a slice, unless its name says otherwise: one that is left out by mistake would shift the others. */
async function listSlices(source, log) {
  const entries = await readdir(source, { withFileTypes: true }).catch(() => undefined);
  if (entries === undefined) return [source];
  const files = [];
  for (const entry of entries) {
    if (entry.name.startsWith('.') || entry.name.toUpperCase() === 'DICOMDIR') continue;
    if (entry.isDirectory() || NO_SLICE.test(entry.name))
      log?.line(`  ${entry.name} is no slice and is ignored`);
    else files.push(path.join(source, entry.name));
  }
  return files.sort();
}

function nameOf(file, source) {
  return file === source ? path.basename(file) : path.join(path.basename(source), path.basename(file));
}

/** The decoded pixels, and the slices in the order in which they are in them. */
async function readPixels(slices, log) {
  const files = slices.map(({ file }) => file);
  if (!slices.some(needsCopy)) return decode(files, slices);
  const scratch = await mkdtemp(path.join(tmpdir(), 'tissue-dicom-'));
  try {
    // All of them are copied, because the reader mounts the directory that contains them.
    const copies = slices.map((_, index) => path.join(scratch, `${String(index).padStart(6, '0')}.dcm`));
    for (const [index, { file, excess, name }] of slices.entries()) {
      await writeFile(copies[index], toReadable(await readFile(file), name));
      if (excess > 0) log?.line(`  ${path.basename(file)}: ${excess} bytes after the pixel data are ignored`);
    }
    return await decode(copies, slices);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

const isScaled = ({ slope, intercept }) => slope !== 1 || intercept !== 0;

function needsCopy({ excess, hasPreamble, frames }) {
  return excess > 0 || !hasPreamble || frames.some(isScaled);
}

/** The bytes of a slice in a form that the image library reads right: a preamble, nothing after the pixels, no scaling. */
function toReadable(bytes, name) {
  const { elements, excess, hasPreamble, hasMeta, syntax } = describeSlice(bytes, name);
  removeScaling(elements);
  const parts = [bytes.subarray(0, bytes.length - excess)];
  if (!hasMeta) parts.unshift(metaInformation(syntax));
  if (!hasPreamble) parts.unshift(PREAMBLE);
  return Buffer.concat(parts);
}

/** The file meta information: its length, and how the elements after it are written. */
function metaInformation(syntax) {
  const value = Buffer.from(syntax.length % 2 === 0 ? syntax : `${syntax}\0`);
  const head = Buffer.from([0x02, 0, 0x10, 0, 0x55, 0x49, value.length, 0]); // (0002,0010) UI
  const length = Buffer.from([0x02, 0, 0, 0, 0x55, 0x4c, 4, 0, head.length + value.length, 0, 0, 0]); // (0002,0000) UL
  return Buffer.concat([length, head, value]);
}

/** Makes every slope 1 and every intercept 0, also those of functional groups, in place. */
function removeScaling(elements) {
  const setText = (value, text) => value.fill(' ').write(text);
  for (const [tag, value] of elements) {
    if (Array.isArray(value)) value.forEach(removeScaling);
    else if (tag === TAG.slope) setText(value, '1');
    else if (tag === TAG.intercept) setText(value, '0');
  }
}

async function decode(files, slices) {
  try {
    const { outputImage: image, sortedFilenames } = await quietly(() =>
      readImageDicomFileSeriesNode({ inputImages: files, singleSortedSeries: false }),
    );
    const names = files.map((file) => path.basename(file));
    const order = sortedFilenames.map((file) => names.indexOf(path.basename(file)));
    return { image, frames: order.flatMap((index) => slices[index].frames) };
  } catch {
    return undefined; // itk-wasm throws a bare number here: it says nothing that could be passed on
  }
}

/** The pixels in the order of the slices' places, each scaled as its own slice says. */
function arrangePixels({ image, frames }, ordered) {
  const plane = image.data.length / frames.length;
  const hasScaling = frames.some(isScaled);
  const data = hasScaling
    ? new Float32Array(image.data.length)
    : new image.data.constructor(image.data.length);
  for (const [index, frame] of ordered.entries()) {
    const from = frames.indexOf(frame) * plane;
    const pixels = image.data.subarray(from, from + plane);
    if (!hasScaling) data.set(pixels, index * plane);
    else
      data.set(
        Float32Array.from(pixels, (value) => value * frame.slope + frame.intercept),
        index * plane,
      );
  }
  const componentType = hasScaling ? 'float32' : image.imageType.componentType;
  return { data, imageType: { ...image.imageType, componentType } };
}
