import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { gunzip, inflateRaw } from 'node:zlib';
import { neutralCsa, privateAttribute } from '../attributes/private.js';
import type { Attribute } from '../attributes/table.js';
import { hasMagic, isDicomStart, isGzip, unzippedStart } from '../headers/dicom-start.js';
import {
  bytesInMemory,
  DamagedElements,
  type ElementBytes,
  type ElementHead,
  elementsIn,
  maxElements,
  readMeta,
  syntaxes,
  undefinedLength,
} from '../headers/dicom-walk.js';
import { identifying, mayBeCode } from './identifying.js';

/** What a DICOM file reveals about people. */
export interface Identity {
  /** Identifying attributes that have a value, such as `PatientName (0010,0010)`, in the order of their tags. */
  readonly attributes: readonly string[];
  /** Whether the whole file could be read. */
  readonly isWhole: boolean;
}

/** Number of elements after which other work may run. */
const elementsAtOnce = 1000;
/** Maximum nesting of sequences. */
const maxDepth = 64;
/** Maximum size of a gzip file or deflated data set that is inspected, because it is unpacked into memory. */
const maxUnpacked = 64 << 20;
/** Number of bytes read of a value. A longer value is never empty. */
const valueStart = 256;
/** Bytes that an empty value may contain: padding, and the separators in names. */
const emptyBytes: ReadonlySet<number> = new Set(Buffer.from('\0 ^=\\'));

const identityRemoved = 0x0012_0062;
const item = 0xfffe_e000;

/** Whether an attribute is private and is not a creator element (PS3.5, 7.8.1). */
function isPrivate(tag: number): boolean {
  const [group, element] = [tag >>> 16, tag & 0xffff];
  return group % 2 === 1 && element !== 0 && (element < 0x10 || element > 0xff);
}

const hexOf = (tag: number): string => tag.toString(16).padStart(8, '0');

function nameOf(tag: number): string {
  const hex = hexOf(tag).toUpperCase();
  return `${identifying.get(tag) ?? 'private attribute'} (${hex.slice(0, 4)},${hex.slice(4)})`;
}

/** Bytes per read: for consecutive elements, and after a skipped value. */
const [sequentialRead, readAfterSkip] = [32 * 1024, 4096];

/** Reads parts of a file synchronously: the thread pool takes five times as long for such small reads. */
class FileBytes implements ElementBytes, Disposable {
  readonly size: number;
  readonly #descriptor: number;
  readonly #buffer = Buffer.allocUnsafe(sequentialRead);
  #start = 0;
  #end = 0;

  /** @throws the system's error */
  constructor(file: string) {
    this.#descriptor = openSync(file, 'r');
    this.size = fstatSync(this.#descriptor).size;
  }

  at(offset: number, length: number): Buffer {
    if (offset < this.#start || offset + length > this.#end) {
      const wanted = Math.max(length, offset <= this.#end ? sequentialRead : readAfterSkip);
      this.#start = offset;
      this.#end =
        offset + readSync(this.#descriptor, this.#buffer, 0, Math.min(wanted, sequentialRead), offset);
    }
    return this.#buffer.subarray(offset - this.#start, Math.min(offset + length, this.#end) - this.#start);
  }

  [Symbol.dispose](): void {
    closeSync(this.#descriptor);
  }
}

function hasValue(bytes: ElementBytes, { length, value }: ElementHead): boolean {
  // A sequence of undefined length is empty if its delimiter follows at once.
  if (length === undefinedLength) return !/^(feffdde0|fffee0dd)$/.test(bytes.at(value, 4).toString('hex'));
  return length > valueStart || bytes.at(value, length).some((byte) => !emptyBytes.has(byte));
}

/** The beginning of a text, without its padding. */
const textOf = (bytes: ElementBytes, { value, length }: ElementHead): string =>
  bytes
    .at(value, Math.min(length, valueStart))
    .toString('latin1')
    .replace(/[\0 ]+$/, '');

/** Whether a private attribute is one that images need, and says nothing else. */
function isSafe(
  bytes: ElementBytes,
  { vr, value, length }: ElementHead,
  row: Attribute | undefined,
): boolean {
  // The elements in a sequence are judged individually as they are found.
  if (row?.treatment === 'items') return vr === 'SQ';
  if (row?.treatment !== 'csa') return row !== undefined;
  const given = Buffer.from(bytes.at(value, length));
  return neutralCsa(given)?.bytes.equals(given) ?? false;
}

const isVr = (text: string): boolean => /^[A-Z]{2}$/.test(text);

/** Detects the encoding from the first element, because some files are not encoded as their transfer syntax says. */
function encodingAt(bytes: ElementBytes, from: number): { isExplicit: boolean; isBig: boolean } {
  const start = bytes.at(from, 8);
  return {
    isExplicit: isVr(start.toString('latin1', 4, 6)),
    isBig: start.length === 8 && start[0] === 0 && start[1] !== 0,
  };
}

/** Runs a zlib function with a limit on the unpacked size. @throws DamagedElements */
const unpackedBy = (
  unpack: (bytes: Buffer, options: { maxOutputLength: number }) => Promise<Buffer>,
  packed: Buffer,
): Promise<Buffer> =>
  unpack(packed, { maxOutputLength: maxUnpacked }).catch(() => {
    throw new DamagedElements();
  });

/** @param readAll reads the whole file; called for a deflated data set */
async function inspect(
  file: ElementBytes,
  readAll: () => Promise<Buffer>,
  pause: () => Promise<void>,
): Promise<Identity> {
  const tags = new Set<number>();
  /**
   * The creator of each block of private attributes (PS3.5, 7.8.1), by depth, group and block: the same tag has another meaning
   * for another creator.
   */
  const creators = new Map<string, string>();
  let [isIdentityRemoved, isPadding, isWhole] = [false, false, true];
  let count = 0;
  try {
    const { syntax, end } = readMeta(file, hasMagic(file.at(0, 256)) ? 132 : 0);
    const isDeflated = syntax === syntaxes.deflated;
    const bytes = isDeflated
      ? bytesInMemory(await unpackedBy(promisify(inflateRaw), (await readAll()).subarray(end)))
      : file;
    const from = isDeflated ? 0 : end;
    const rowOf = ({ tag, depth }: ElementHead) =>
      privateAttribute(creators.get(`${depth} ${tag >>> 16} ${(tag >>> 8) & 0xff}`) ?? '', hexOf(tag));
    const isOpaque = (head: ElementHead) => isPrivate(head.tag) && rowOf(head)?.treatment !== 'items';
    for (const head of elementsIn(bytes, from, encodingAt(bytes, from), true, isOpaque)) {
      const { tag, vr, depth, at } = head;
      count += 1;
      if (count > maxElements || depth > maxDepth) throw new DamagedElements();
      if (count % elementsAtOnce === 0) await pause();
      // Some programs write zeros after the data set. Anything else after it is not inspected.
      const isZeros = depth === 0 && bytes.at(at, 8).every((byte) => byte === 0);
      if (isPadding && !isZeros) throw new DamagedElements();
      isPadding = isZeros;
      if (!isZeros && vr !== '' && !isVr(vr)) throw new DamagedElements();
      // Each item names the creators of its own private attributes.
      if (tag === item)
        for (const key of creators.keys()) if (key.startsWith(`${depth + 1} `)) creators.delete(key);
      if (tag === identityRemoved && depth === 0) isIdentityRemoved = textOf(bytes, head) === 'YES';
      if ((tag >>> 16) % 2 === 1 && !isPrivate(tag))
        creators.set(`${depth} ${tag >>> 16} ${tag & 0xff}`, textOf(bytes, head));
      const isFinding = identifying.has(tag) || (isPrivate(tag) && !isSafe(bytes, head, rowOf(head)));
      if (isFinding && hasValue(bytes, head)) tags.add(tag);
    }
  } catch (cause) {
    if (!(cause instanceof DamagedElements)) throw cause;
    isWhole = false;
  }
  const told = [...tags].filter((tag) => !(isIdentityRemoved && mayBeCode(tag))).sort((a, b) => a - b);
  return { attributes: told.map(nameOf), isWhole };
}

/**
 * Searches a whole file for identifying attributes: in sequences of any depth, and after the pixels.
 * @param pause called often; the search continues when it resolves
 * @returns null for a file that is not DICOM
 * @throws the system's error
 */
export async function identityIn(file: string, pause: () => Promise<void>): Promise<Identity | null> {
  using bytes = new FileBytes(file);
  const start = bytes.at(0, 16 * 1024);
  const readAll = async () => {
    if (bytes.size > maxUnpacked) throw new DamagedElements();
    return readFile(file);
  };
  if (!isGzip(start)) return isDicomStart(start) ? await inspect(bytes, readAll, pause) : null;
  try {
    if (!isDicomStart(unzippedStart(start))) return null;
  } catch {
    return null;
  }
  try {
    const whole = await unpackedBy(promisify(gunzip), await readAll());
    return await inspect(bytesInMemory(whole), async () => whole, pause);
  } catch (cause) {
    if (!(cause instanceof DamagedElements)) throw cause;
    return { attributes: [], isWhole: false };
  }
}
