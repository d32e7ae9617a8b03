import { createReadStream } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import path from 'node:path';
import { createUnzip } from 'node:zlib';
import { AppError } from './errors.mjs';
import { HEADERS } from './headers.mjs';

/** More bytes than the header of a volume has. */
const HEADER_BYTES = 1 << 18;

/**
 * Where the voxels of an image file lie (see headers.mjs), with the paths of the `files` that hold them; undefined for
 * what is no image of these formats.
 */
export async function readLayout(file) {
  const ending = Object.keys(HEADERS).findLast((known) => file.toLowerCase().endsWith(known));
  if (ending === undefined) return undefined;
  const isPacked = await isGzip(file);
  const header = HEADERS[ending](await firstBytes(file, isPacked), file);
  if (header === undefined) return undefined;
  const files = header.names?.map((name) => path.join(path.dirname(file), name)) ?? [file];
  return { isPacked, start: 0, ...header, files };
}

/** Refuses a volume of which a part is missing: the image library takes any bytes for the missing voxels. */
export async function requireWhole(file, { bytes, skip, start, files, names = [], isPacked }) {
  const name = path.basename(file);
  const outside = names.find((each) => path.isAbsolute(each) || each.split(/[\\/]/).includes('..'));
  if (outside !== undefined)
    throw new AppError(`${name} names a data file outside its own folder: write its name without folders.`);
  for (const [index, each] of files.entries()) {
    if (!(await stat(each).catch(() => undefined))?.isFile())
      throw new AppError(
        `${name} has its voxels in ${names[index]}, which is not there: send both together.`,
      );
  }
  if (!(bytes > 0))
    throw new AppError(
      `${name} does not say how many bytes of voxels it has, as where they are text: write it again as binary data.`,
    );
  let found = 0;
  for (const each of files) found += (await countBytes(each, isPacked, start)) - Math.max(0, skip);
  if (found < bytes)
    throw new AppError(
      `${name} is cut short: its header says ${bytes} bytes of voxels, and ${Math.max(0, found)} are there. Send it again from the original.`,
    );
}

async function countBytes(file, isPacked, start) {
  if (!isPacked) return (await stat(file)).size - start;
  let count = 0;
  for await (const chunk of unpack(file, start)) count += chunk.length;
  return count;
}

async function isGzip(file) {
  const handle = await open(file);
  try {
    const { buffer } = await handle.read(Buffer.alloc(2), 0, 2, 0);
    return buffer.readUInt16BE(0) === 0x1f8b;
  } finally {
    await handle.close();
  }
}

async function firstBytes(file, isPacked) {
  const chunks = [];
  let length = 0;
  for await (const chunk of isPacked ? unpack(file) : createReadStream(file)) {
    chunks.push(chunk);
    length += chunk.length;
    if (length >= HEADER_BYTES) break;
  }
  return Buffer.concat(chunks);
}

/** What is in gzip or zlib data. */
async function* unpack(file, start = 0) {
  const source = createReadStream(file, { start });
  const content = createUnzip();
  source.on('error', (error) => content.destroy(error));
  try {
    yield* source.pipe(content);
  } catch (error) {
    throw new AppError(
      `${path.basename(file)} is damaged or cut short: its packed data cannot be unpacked (${error.message}). Send it again from the original.`,
    );
  } finally {
    source.destroy();
  }
}
