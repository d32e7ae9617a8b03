import { createHash, type Hash } from 'node:crypto';
import { type FileHandle, open, rm } from 'node:fs/promises';
import type { LabelSlice } from './onto-grid.js';
import { VolumeError } from './volume.js';

/** A frame to be written: a label in slice k, or 0 for all labels of that slice. */
export interface SegFrame {
  readonly k: number;
  readonly value: number;
  /** Its layer; absent for the first layer. */
  readonly layer?: number;
}

/** Maximum number of labels, more than any label map has. A scan mistaken for a label map would fill the disk. */
const maxLabels = 1000;

/** @throws VolumeError for more than the maximum number of labels */
export function requireLabels(values: { readonly size: number }): void {
  if (values.size > maxLabels)
    throw new VolumeError(`There are more than ${maxLabels} different values: it is not a label map.`);
}

/** Adds the labels of a slice to those that were found. @throws VolumeError for more labels than a label map has */
export function addLabels(found: Set<number>, values: LabelSlice['values']): void {
  let last = 0;
  for (const value of values) {
    if (value === last) continue;
    last = value;
    if (value !== 0) found.add(value);
  }
  requireLabels(found);
}

/** How many bytes are copied at once. */
const chunk = 1 << 20;

/** The non-empty frames of a segmentation, held in a temporary file until everything before them is known. */
export class SegFrames implements AsyncDisposable {
  readonly frames: SegFrame[] = [];
  /** The labels that occur in each layer. */
  readonly values: Set<number>[] = [];
  readonly #hash: Hash = createHash('sha256');
  /** Bytes in the file. */
  #length = 0;
  /** The number of bits used in the last byte, and that byte. */
  #bits = 0;
  #last = 0;

  private constructor(
    private readonly file: string,
    private readonly handle: FileHandle,
    private readonly isLabelMap: boolean,
  ) {}

  /**
   * Packs slices of labels, layer by layer: each label of a slice as single bits, without padding between frames (PS3.5, 8.1.1),
   * or, in a LABELMAP of one layer, each slice as words.
   * @param file the temporary file, removed on disposal
   * @throws VolumeError for more than the maximum number of labels
   */
  static async collect(
    file: string,
    layers: readonly AsyncIterable<LabelSlice>[],
    isLabelMap: boolean,
  ): Promise<SegFrames> {
    const frames = new SegFrames(file, await open(file, 'wx+'), isLabelMap);
    try {
      for (const slices of layers) {
        const labels = new Set<number>();
        frames.values.push(labels);
        for await (const slice of slices)
          await (isLabelMap ? frames.#addMap(slice, labels) : frames.#addSegments(slice, labels));
      }
      if (frames.#bits > 0) await frames.#write(Uint8Array.of(frames.#last));
      return frames;
    } catch (error) {
      await frames[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Bits per value. */
  get bitsAllocated(): 1 | 8 | 16 {
    if (!this.isLabelMap) return 1;
    return this.values.some((values) => [...values].some((value) => value > 255)) ? 16 : 8;
  }

  /** Bytes of all frames, without padding. */
  get length(): number {
    return this.bitsAllocated === 8 ? this.#length / 2 : this.#length;
  }

  /** A hash of all frames. */
  digest(): string {
    return this.#hash.copy().update(JSON.stringify(this.frames)).digest('hex');
  }

  /** Copies all frames to a file. */
  async copyTo(target: FileHandle): Promise<void> {
    const buffer = Buffer.alloc(chunk);
    for (let from = 0; from < this.#length; ) {
      const { bytesRead } = await this.handle.read(buffer, 0, chunk, from);
      if (bytesRead === 0) throw new RangeError(`${this.file} became shorter`);
      from += bytesRead;
      const words = buffer.subarray(0, bytesRead);
      await target.appendFile(this.bitsAllocated === 8 ? words.filter((_, at) => at % 2 === 0) : words);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.handle.close();
    await rm(this.file, { force: true });
  }

  async #addMap({ k, values }: LabelSlice, labels: Set<number>): Promise<void> {
    addLabels(labels, values);
    if (!values.some((value) => value !== 0)) return;
    this.frames.push({ k, value: 0 });
    await this.#write(new Uint8Array(Uint16Array.from(values).buffer));
  }

  async #addSegments({ k, values }: LabelSlice, labels: Set<number>): Promise<void> {
    const planes = new Map<number, Uint8Array>();
    let last = 0;
    let plane: Uint8Array = new Uint8Array(0);
    const { length } = values;
    for (let at = 0; at < length; at += 1) {
      const value = values[at] as number;
      if (value === 0) continue;
      if (value !== last) {
        last = value;
        const known = planes.get(value);
        if (known) plane = known;
        else {
          plane = new Uint8Array(Math.ceil(length / 8));
          planes.set(value, plane);
          requireLabels(planes);
        }
      }
      plane[at >> 3] = (plane[at >> 3] as number) | (1 << (at & 7));
    }
    const layer = this.values.length - 1;
    for (const [value, bits] of [...planes].sort(([one], [other]) => one - other)) {
      labels.add(value);
      this.frames.push(layer === 0 ? { k, value } : { k, value, layer });
      await this.#append(bits, length);
    }
    requireLabels(labels);
  }

  /** Appends bits after the partially filled last byte. */
  async #append(bits: Uint8Array, count: number): Promise<void> {
    const taken = this.#bits;
    const end = taken + count;
    if (taken > 0) {
      let carry = this.#last;
      for (let at = 0; at < bits.length; at += 1) {
        const byte = bits[at] as number;
        bits[at] = carry | ((byte << taken) & 0xff);
        carry = byte >> (8 - taken);
      }
      this.#last = carry;
    }
    const whole = Math.floor(end / 8);
    this.#bits = end % 8;
    if (whole < bits.length) this.#last = bits[whole] as number;
    await this.#write(whole < bits.length ? bits.subarray(0, whole) : bits);
  }

  async #write(bytes: Uint8Array): Promise<void> {
    this.#hash.update(bytes);
    await this.handle.appendFile(bytes);
    this.#length += bytes.length;
  }
}
