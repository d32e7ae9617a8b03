import { syntaxes } from './dicom-syntaxes.js';

/** Value representations with a length of four bytes, behind two that are not used. */
export const longForms: ReadonlySet<string> = new Set([
  'OB',
  'OD',
  'OF',
  'OL',
  'OV',
  'OW',
  'SQ',
  'SV',
  'UC',
  'UN',
  'UR',
  'UT',
  'UV',
]);

const undefinedLength = 0xffff_ffff;
const [item, itemEnd, sequenceEnd] = [0xfffe_e000, 0xfffe_e00d, 0xfffe_e0dd];
/** Pixels as floating-point numbers, and all others. */
const pixels: ReadonlySet<number> = new Set([0x7fe0_0008, 0x7fe0_0009, 0x7fe0_0010]);

/** What is found out about a header before it is parsed. */
interface Walk {
  /** Where it has more elements than are wanted; null if it has fewer. */
  readonly cut: number | null;
  /** The element that holds the pixels; null if it does not begin within these bytes. */
  readonly pixels: string | null;
}

/**
 * Counts the elements of a header. The parser takes 10 microseconds and a kilobyte for each of them, so that 16 MB of empty
 * ones would take minutes and more than a gigabyte.
 * @param from where elements begin
 * @param syntax that of a data set without a group that describes the file; null if that group says it
 */
export function walkElements(bytes: Uint8Array, from: number, syntax: string | null, most: number): Walk {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let known = syntax ?? syntaxes.explicit;
  let [at, count, nestedTo, open] = [from, 0, 0, 0];
  let isInPixels = false;
  while (at + 8 <= bytes.length) {
    const group = view.getUint16(at, true);
    const isMeta = group === 2 && syntax === null;
    const isBig = !isMeta && known === syntaxes.bigEndian;
    const isExplicit = isMeta || known !== syntaxes.implicit;
    const tag = view.getUint16(at, !isBig) * 0x1_0000 + view.getUint16(at + 2, !isBig);
    count += 1;
    if (count > most) return { cut: at, pixels: null };
    if (tag === item || tag === itemEnd || tag === sequenceEnd) {
      const length = view.getUint32(at + 4, !isBig);
      if (tag === sequenceEnd) [open, isInPixels] = [Math.max(0, open - 1), false];
      at += 8 + (isInPixels && tag === item ? length : 0);
      continue;
    }
    const vr = isExplicit ? String.fromCharCode(bytes[at + 4] ?? 0, bytes[at + 5] ?? 0) : '';
    const isWide = !isExplicit || longForms.has(vr);
    const head = isExplicit && isWide ? 12 : 8;
    if (at + head > bytes.length) break;
    const length = isWide ? view.getUint32(at + head - 4, !isBig) : view.getUint16(at + 6, !isBig);
    const isNested = open > 0 || at < nestedTo;
    if (pixels.has(tag) && !isNested) return { cut: null, pixels: `x${tag.toString(16).padStart(8, '0')}` };
    if (isMeta && tag === 0x0002_0010)
      known = Buffer.from(bytes.subarray(at + head, at + head + length))
        .toString('latin1')
        .replace(/[\0 ]+$/, '');
    at += head;
    if (length === undefinedLength) {
      open += 1;
      isInPixels = pixels.has(tag);
    } else if (vr === 'SQ') nestedTo = Math.max(nestedTo, at + length);
    else at += length;
  }
  return { cut: null, pixels: null };
}
