/** Transfer syntaxes with uncompressed pixels. */
export const syntaxes = {
  implicit: '1.2.840.10008.1.2',
  explicit: '1.2.840.10008.1.2.1',
  bigEndian: '1.2.840.10008.1.2.2',
  deflated: '1.2.840.10008.1.2.1.99',
} as const;

/** Whether an element with this value representation (VR) has a four-byte length instead of a two-byte one. */
export const hasLongLength = (vr: string): boolean => /^(?:O[BDFLVW]|SQ|SV|U[CNRTV])$/.test(vr);

export const undefinedLength = 0xffff_ffff;
const [item, itemEnd, sequenceEnd] = [0xfffe_e000, 0xfffe_e00d, 0xfffe_e0dd];
const pixelGroup = 0x7fe0;
const transferSyntax = 0x0002_0010;

/** How the elements of a data set are encoded. */
export interface Encoding {
  readonly isExplicit: boolean;
  readonly isBig: boolean;
}

const explicitLittle: Encoding = { isExplicit: true, isBig: false };
const implicitLittle: Encoding = { isExplicit: false, isBig: false };

export const encodingOf = (syntax: string): Encoding => ({
  isExplicit: syntax !== syntaxes.implicit,
  isBig: syntax === syntaxes.bigEndian,
});

/** A source of bytes to read elements from. */
export interface ElementBytes {
  readonly size: number;
  /** Up to `length` bytes, fewer at the end. They are valid until the next call. */
  at(offset: number, length: number): Buffer;
}

export const bytesInMemory = (bytes: Buffer): ElementBytes => ({
  size: bytes.length,
  at: (offset, length) => bytes.subarray(offset, offset + length),
});

/** The head of an element, or of an item of a sequence. */
export interface ElementHead {
  readonly at: number;
  readonly tag: number;
  /** Empty where none is written. */
  readonly vr: string;
  /** Length of the value; `undefinedLength` if a delimiter ends it. */
  readonly length: number;
  /** Offset of the value. */
  readonly value: number;
  /** Number of sequences around it. */
  readonly depth: number;
}

/** Maximum number of elements read from a file. */
export const maxElements = 500_000;

/** The error for elements that are inconsistent, or a file that ends before they do. */
export class DamagedElements extends Error {}

function headAt(
  bytes: ElementBytes,
  at: number,
  { isExplicit, isBig }: Encoding,
  depth: number,
): ElementHead {
  const start = bytes.at(at, 12);
  if (start.length < 8) throw new DamagedElements();
  const short = (from: number) => (isBig ? start.readUInt16BE(from) : start.readUInt16LE(from));
  const long = (from: number) => (isBig ? start.readUInt32BE(from) : start.readUInt32LE(from));
  const tag = short(0) * 0x1_0000 + short(2);
  if (!isExplicit || short(0) === 0xfffe) return { at, tag, vr: '', length: long(4), value: at + 8, depth };
  const vr = start.toString('latin1', 4, 6);
  if (!hasLongLength(vr)) return { at, tag, vr, length: short(6), value: at + 8, depth };
  if (start.length < 12) throw new DamagedElements();
  return { at, tag, vr, length: long(8), value: at + 12, depth };
}

/** The content of an element that has not ended yet. */
interface Level {
  readonly holds: 'items' | 'elements' | 'fragments';
  /** End offset; null if a delimiter ends it. */
  readonly end: number | null;
  readonly encoding: Encoding;
}

/** The kind of content of an element: items of a sequence or pixel fragments; null for a plain value. */
function contentOf(bytes: ElementBytes, head: ElementHead, encoding: Encoding): Level | null {
  const { tag, vr, length, value } = head;
  const end = length === undefinedLength ? null : value + length;
  if (tag >>> 16 === pixelGroup) return end === null ? { holds: 'fragments', end, encoding } : null;
  // The content of UN is always encoded without VRs.
  const inner = vr === 'UN' ? implicitLittle : encoding;
  const mayBeItems = length >= 8 && (vr === '' || vr === 'UN');
  const beginsWithItem = () => bytes.at(value, 4).toString('hex') === 'feff00e0';
  const isSequence = end === null || vr === 'SQ' || (mayBeItems && beginsWithItem());
  return isSequence ? { holds: 'items', end, encoding: inner } : null;
}

/**
 * Yields all elements and items of a data set in file order, including those in sequences.
 * @param isStrict whether inconsistent elements are an error; otherwise they are read as the parser reads them
 * @param isOpaque whether to skip the content of an element of known length
 * @throws DamagedElements
 */
export function* elementsIn(
  bytes: ElementBytes,
  from: number,
  encoding: Encoding,
  isStrict: boolean,
  isOpaque: (head: ElementHead) => boolean = () => false,
): Generator<ElementHead, void, undefined> {
  const levels: Level[] = [];
  let depth = 0;
  const close = () => {
    if (levels.pop()?.holds === 'elements') depth -= 1;
  };
  const requireSound = (isSound: boolean) => {
    if (!isSound && isStrict) throw new DamagedElements();
  };
  for (let at = from; ; ) {
    let level = levels.at(-1);
    for (; level && level.end !== null && at >= level.end; level = levels.at(-1)) {
      requireSound(at === level.end);
      close();
    }
    if (at + 8 > bytes.size) {
      requireSound(levels.length === 0 && at <= bytes.size);
      return;
    }
    const own = level?.encoding ?? encoding;
    const head = headAt(bytes, at, own, depth);
    const { tag, length, value } = head;
    const end = length === undefinedLength ? null : value + length;
    at = value;
    if (tag === itemEnd || tag === sequenceEnd) {
      const isElements = level?.holds === 'elements';
      requireSound(level !== undefined && level.end === null && isElements === (tag === itemEnd));
      if (level && isElements === (tag === itemEnd)) close();
      continue;
    }
    requireSound((tag === item) === (level !== undefined && level.holds !== 'elements'));
    yield head;
    requireSound((end ?? value) <= (level?.end ?? bytes.size));
    let content: Level | null = null;
    if (tag !== item) content = end !== null && isOpaque(head) ? null : contentOf(bytes, head, own);
    else if (level?.holds !== 'fragments') content = { holds: 'elements', end, encoding: own };
    if (!content) at = end ?? value;
    else {
      levels.push(content);
      if (content.holds === 'elements') depth += 1;
    }
  }
}

/** The standard defines 15 elements of file meta information. */
const maxMetaElements = 1000;

/**
 * Reads the file meta information (PS3.10, 7.1): the transfer syntax, and where the data set begins.
 * @throws DamagedElements
 */
export function readMeta(bytes: ElementBytes, from: number): { syntax: string; end: number } {
  let [at, syntax]: [number, string] = [from, syntaxes.explicit];
  for (let count = 0; at + 8 <= bytes.size && bytes.at(at, 2).readUInt16LE() === 2; count += 1) {
    if (count === maxMetaElements) throw new DamagedElements();
    const { tag, value, length } = headAt(bytes, at, explicitLittle, 0);
    const words = () => bytes.at(value, Math.min(length, 64)).toString('latin1');
    if (tag === transferSyntax) syntax = words().replace(/[\0 ]+$/, '');
    at = value + length;
  }
  return { syntax, end: at };
}
