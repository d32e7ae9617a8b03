/** Value representations whose length takes four bytes, after two that are reserved (PS3.5, table 7.1-1). */
const LONG_FORMS = new Set(['OB', 'OD', 'OF', 'OL', 'OV', 'OW', 'SQ', 'SV', 'UC', 'UN', 'UR', 'UT', 'UV']);
const FIRST_ELEMENT = 132;
const PIXEL_DATA = 0x7fe00010;
const UNDEFINED_LENGTH = 0xffffffff;

/**
 * Where a DICOM file's pixel data end, or undefined where that cannot be told. It walks from element to
 * element rather than looking for the tag's bytes, for an icon inside a sequence has pixel data too.
 * Little endian with explicit value representations only: the files in question are of that kind.
 */
export function endOfPixelData(bytes) {
  for (let at = FIRST_ELEMENT; at + 12 <= bytes.length; ) {
    const tag = bytes.readUInt16LE(at) * 0x10000 + bytes.readUInt16LE(at + 2);
    const form = bytes.toString('latin1', at + 4, at + 6);
    if (!/^[A-Z]{2}$/.test(form)) return undefined;
    const isLong = LONG_FORMS.has(form);
    const length = isLong ? bytes.readUInt32LE(at + 8) : bytes.readUInt16LE(at + 6);
    if (length === UNDEFINED_LENGTH) return undefined;
    at += (isLong ? 12 : 8) + length;
    if (tag === PIXEL_DATA) return at <= bytes.length ? at : undefined;
  }
  return undefined;
}
