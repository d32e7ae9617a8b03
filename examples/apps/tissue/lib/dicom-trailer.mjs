import { open } from 'node:fs/promises';

/** Value representations whose length takes four bytes, after two that are reserved (PS3.5, table 7.1-1). */
const LONG_FORMS = new Set(['OB', 'OD', 'OF', 'OL', 'OV', 'OW', 'SQ', 'SV', 'UC', 'UN', 'UR', 'UT', 'UV']);
const FIRST_ELEMENT = 132;
const PIXEL_DATA = 0x7fe00010;
const UNDEFINED_LENGTH = 0xffffffff;

/** More bytes than the header of a slice has. A file with a longer header is read unchanged. */
const HEADER_BYTES = 1 << 18;

/** How many bytes a DICOM file has after its pixel data; 0 if that cannot be determined. */
export async function bytesAfterPixels(file) {
  const handle = await open(file);
  try {
    const { bytesRead, buffer } = await handle.read(Buffer.alloc(HEADER_BYTES), 0, HEADER_BYTES, 0);
    const { size } = await handle.stat();
    const end = endOfPixelData(buffer.subarray(0, bytesRead));
    return end === undefined ? 0 : Math.max(0, size - end);
  } finally {
    await handle.close();
  }
}

/**
 * Where the pixel data end, or undefined. It walks from element to element rather than looking for the tag's
 * bytes, because an icon inside a sequence also has pixel data. Little endian with explicit value representations
 * only: the files in question are of that kind.
 */
function endOfPixelData(bytes) {
  for (let at = FIRST_ELEMENT; at + 12 <= bytes.length; ) {
    const tag = bytes.readUInt16LE(at) * 0x10000 + bytes.readUInt16LE(at + 2);
    const form = bytes.toString('latin1', at + 4, at + 6);
    if (!/^[A-Z]{2}$/.test(form)) return undefined;
    const isLong = LONG_FORMS.has(form);
    const length = isLong ? bytes.readUInt32LE(at + 8) : bytes.readUInt16LE(at + 6);
    if (length === UNDEFINED_LENGTH) return undefined;
    at += (isLong ? 12 : 8) + length;
    if (tag === PIXEL_DATA) return at;
    if (tag > PIXEL_DATA) return undefined;
  }
  return undefined;
}
