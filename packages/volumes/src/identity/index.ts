import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { gunzip, inflateRaw } from 'node:zlib';
import { elementsToRead, hasMagic, isDicomStart, isGzip, unzippedStart } from './dicom-start.js';
import { syntaxes } from './dicom-syntaxes.js';
import { longForms } from './dicom-walk.js';
import { bytesInMemory, type ElementBytes, FileBytes } from './element-bytes.js';
import { identifying, mayBeCode } from './identifying.js';

/** What a DICOM file says of people. */
export interface Identity {
  /** Attributes with a value that say who somebody is, such as `PatientName (0010,0010)`, in the order of their tags. */
  readonly attributes: readonly string[];
  /** Whether all of the file could be looked at. */
  readonly isWhole: boolean;
}

/** The file makes no sense from somewhere on, or has more than is looked at. */
class Unreadable extends Error {}

/** Elements after which other work may run. */
const elementsAtOnce = 1000;
/** Deepest nesting of sequences. */
const deepest = 64;
/** Most bytes that a packed file, or a deflated data set, may have: all of it is held in memory. */
const maxUnpacked = 64 << 20;
/** Bytes of a value that are looked at: a longer one is never empty. */
const valueStart = 256;
/** Bytes of an empty value: blanks, and what separates the parts of a name. */
const saysNothing: ReadonlySet<number> = new Set(Buffer.from('\0 ^=\\'));

const [item, itemEnd, sequenceEnd] = [0xfffe_e000, 0xfffe_e00d, 0xfffe_e0dd];
const undefinedLength = 0xffff_ffff;
const metaGroup = 0x0002;
const transferSyntax = 0x0002_0010;
const identityRemoved = 0x0012_0062;
const pixelGroup = 0x7fe0;

const groupOf = (tag: number): number => tag >>> 16;
const elementOf = (tag: number): number => tag & 0xffff;

/** Whether a tag is that of a private attribute, and not of the name of whoever has them. */
const isPrivate = (tag: number): boolean =>
  groupOf(tag) % 2 === 1 && elementOf(tag) !== 0 && (elementOf(tag) < 0x10 || elementOf(tag) > 0xff);

const hex = (number: number): string => number.toString(16).padStart(4, '0').toUpperCase();

const nameOf = (tag: number): string =>
  `${identifying.get(tag) ?? 'private attribute'} (${hex(groupOf(tag))},${hex(elementOf(tag))})`;

/** How the elements of a data set are written. */
interface Way {
  readonly isExplicit: boolean;
  readonly isBig: boolean;
}

const implicit: Way = { isExplicit: false, isBig: false };

/** The head of an element. */
interface Head {
  readonly tag: number;
  /** Empty where it is not written. */
  readonly vr: string;
  readonly length: number;
  /** Where its value begins. */
  readonly value: number;
}

const isVr = (text: string): boolean => /^[A-Z]{2}$/.test(text);

/** Goes through all elements of a file, also behind the pixels, and reads no values but those that may say who somebody is. */
class IdentityWalk {
  readonly found = new Set<number>();
  isRemoved = false;
  syntax: string = syntaxes.explicit;
  #elements = 0;

  constructor(
    private readonly bytes: ElementBytes,
    private readonly pause: () => Promise<void>,
  ) {}

  /** The group that describes the file. @returns where the data set begins */
  async meta(from: number): Promise<number> {
    const way = { isExplicit: true, isBig: false };
    let at = from;
    while (at + 8 <= this.bytes.size && this.bytes.at(at, 2).readUInt16LE() === metaGroup) {
      const head = this.#head(at, way);
      if (head.tag === transferSyntax) this.syntax = this.#text(head);
      at = head.value + head.length;
      await this.#count();
    }
    return at;
  }

  /**
   * Elements up to the end, or to the mark of it.
   * @param depth 0 for the data set itself
   * @returns where the next ones begin
   */
  async set(from: number, end: number, way: Way, depth = 0): Promise<number> {
    if (depth > deepest) throw new Unreadable();
    let at = from;
    while (at + 8 <= end) {
      if (depth === 0 && this.#isZero(at)) return this.#zeros(at);
      const head = this.#head(at, way);
      if (head.tag === itemEnd && depth > 0) return head.value;
      await this.#count();
      this.#note(head, depth);
      at = await this.#after(head, way, depth);
      if (at > end) throw new Unreadable();
    }
    if (at < end && depth > 0) throw new Unreadable();
    return at;
  }

  #isZero = (at: number): boolean => this.bytes.at(at, 8).every((byte) => byte === 0);

  /** Zeros to the end, as some programs write them behind the data set. */
  async #zeros(from: number): Promise<number> {
    let at = from;
    for (; at < this.bytes.size; at += 8) {
      if (!this.#isZero(at)) throw new Unreadable();
      await this.#count();
    }
    return at;
  }

  async #count(): Promise<void> {
    this.#elements += 1;
    if (this.#elements > elementsToRead) throw new Unreadable();
    if (this.#elements % elementsAtOnce === 0) await this.pause();
  }

  #head(at: number, { isExplicit, isBig }: Way): Head {
    const bytes = this.bytes.at(at, 12);
    if (bytes.length < 8) throw new Unreadable();
    const short = (from: number) => (isBig ? bytes.readUInt16BE(from) : bytes.readUInt16LE(from));
    const long = (from: number) => (isBig ? bytes.readUInt32BE(from) : bytes.readUInt32LE(from));
    const tag = short(0) * 0x1_0000 + short(2);
    if (!isExplicit || groupOf(tag) === groupOf(item)) return { tag, vr: '', length: long(4), value: at + 8 };
    const vr = bytes.toString('latin1', 4, 6);
    if (!isVr(vr)) throw new Unreadable();
    if (!longForms.has(vr)) return { tag, vr, length: short(6), value: at + 8 };
    if (bytes.length < 12) throw new Unreadable();
    return { tag, vr, length: long(8), value: at + 12 };
  }

  /** Notes an attribute that says who somebody is. */
  #note(head: Head, depth: number): void {
    const { tag } = head;
    if (tag === identityRemoved && depth === 0) this.isRemoved = this.#text(head) === 'YES';
    if ((identifying.has(tag) || isPrivate(tag)) && this.#hasValue(head)) this.found.add(tag);
  }

  #hasValue({ length, value }: Head): boolean {
    if (length === 0) return false;
    const isOpen = length === undefinedLength;
    const start = this.bytes.at(value, isOpen ? 8 : Math.min(length, valueStart));
    if (isOpen) return start.readUInt16LE(2) !== elementOf(sequenceEnd);
    return length > valueStart || start.some((byte) => !saysNothing.has(byte));
  }

  #text({ length, value }: Head): string {
    return this.bytes
      .at(value, Math.min(length, valueStart))
      .toString('latin1')
      .replace(/[\0 ]+$/, '');
  }

  /** Where the element after this one begins. Goes through the items of a sequence. */
  async #after({ tag, vr, length, value }: Head, way: Way, depth: number): Promise<number> {
    const end = length === undefinedLength ? this.bytes.size : value + length;
    const isOpen = length === undefinedLength;
    if (groupOf(tag) === pixelGroup) return isOpen ? this.#fragments(value, way) : end;
    // Noted as a whole.
    if (isPrivate(tag) && !isOpen) return end;
    // What is not known is written without VRs, as is what nobody says a VR of.
    const inner = vr === 'UN' ? implicit : way;
    if (isOpen || vr === 'SQ') return this.#items(value, end, length, inner, depth);
    const mayBeSequence = length >= 8 && (vr === '' || vr === 'UN');
    if (mayBeSequence && this.bytes.at(value, 4).readUInt32LE() === 0xe000_fffe)
      return this.#items(value, end, length, inner, depth);
    return end;
  }

  async #items(from: number, end: number, length: number, way: Way, depth: number): Promise<number> {
    let at = from;
    while (at + 8 <= end) {
      const head = this.#head(at, way);
      if (head.tag === sequenceEnd && length === undefinedLength) return head.value;
      if (head.tag !== item) throw new Unreadable();
      await this.#count();
      const isOpen = head.length === undefinedLength;
      const itemsEnd = isOpen ? end : head.value + head.length;
      if (itemsEnd > end) throw new Unreadable();
      at = await this.set(head.value, itemsEnd, way, depth + 1);
    }
    if (at !== end || length === undefinedLength) throw new Unreadable();
    return at;
  }

  /** Compressed pixels: items of any bytes. */
  async #fragments(from: number, way: Way): Promise<number> {
    let at = from;
    for (;;) {
      const head = this.#head(at, way);
      if (head.tag === sequenceEnd) return head.value;
      if (head.tag !== item) throw new Unreadable();
      at = head.value + head.length;
      await this.#count();
    }
  }
}

/** The bytes of a file that is packed with gzip, if DICOM is in it; null if not. */
async function unpacked(file: string, size: number, start: Buffer): Promise<Buffer | null> {
  try {
    if (!isDicomStart(unzippedStart(start))) return null;
  } catch {
    return null;
  }
  if (size > maxUnpacked) throw new Unreadable();
  try {
    return await promisify(gunzip)(await readFile(file), { maxOutputLength: maxUnpacked });
  } catch {
    throw new Unreadable();
  }
}

async function inflated(bytes: ElementBytes, from: number): Promise<ElementBytes> {
  if (bytes.size - from > maxUnpacked) throw new Unreadable();
  const pieces: Buffer[] = [];
  for (let at = from; at < bytes.size; ) {
    const piece = Buffer.from(bytes.at(at, 16 * 1024));
    if (piece.length === 0) throw new Unreadable();
    pieces.push(piece);
    at += piece.length;
  }
  try {
    const options = { maxOutputLength: maxUnpacked };
    return bytesInMemory(await promisify(inflateRaw)(Buffer.concat(pieces), options));
  } catch {
    throw new Unreadable();
  }
}

/** How a data set is written: as its first element is, since some files say something else of themselves. */
function wayOf(bytes: ElementBytes, from: number): Way {
  const start = bytes.at(from, 8);
  const isBig = start.length === 8 && start[0] === 0 && start[1] !== 0;
  return { isExplicit: isVr(start.toString('latin1', 4, 6)), isBig };
}

async function lookThrough(bytes: ElementBytes, pause: () => Promise<void>): Promise<Identity> {
  const start = hasMagic(bytes.at(0, 256)) ? 132 : 0;
  const describing = new IdentityWalk(bytes, pause);
  let walk = describing;
  let isWhole = true;
  try {
    let from = await describing.meta(start);
    let body = bytes;
    if (describing.syntax === syntaxes.deflated) {
      body = await inflated(bytes, from);
      from = 0;
    }
    walk = new IdentityWalk(body, pause);
    await walk.set(from, body.size, wayOf(body, from));
  } catch (cause) {
    if (!(cause instanceof Unreadable || cause instanceof RangeError)) throw cause;
    isWhole = false;
  }
  const tags = [...walk.found].filter((tag) => !(walk.isRemoved && mayBeCode(tag))).sort((a, b) => a - b);
  return { attributes: tags.map(nameOf), isWhole };
}

/**
 * Looks for attributes that say who somebody is, in all of a file: in sequences of any depth, and behind the pixels.
 * @param pause called often; the search goes on when it resolves
 * @returns null for a file that is not DICOM
 * @throws the system's error
 */
export async function identityIn(file: string, pause: () => Promise<void>): Promise<Identity | null> {
  using bytes = new FileBytes(file);
  const start = bytes.at(0, 16 * 1024);
  try {
    if (isGzip(start)) {
      const whole = await unpacked(file, bytes.size, start);
      return whole && (await lookThrough(bytesInMemory(whole), pause));
    }
    return isDicomStart(start) ? await lookThrough(bytes, pause) : null;
  } catch (cause) {
    if (!(cause instanceof Unreadable)) throw cause;
    return { attributes: [], isWhole: false };
  }
}
