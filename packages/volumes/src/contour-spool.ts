import { type FileHandle, open, rm } from 'node:fs/promises';

/** How many bytes of a region are kept in memory, and how many are copied at once. */
const [maxPending, chunk] = [1 << 18, 1 << 20];

interface Part {
  readonly from: number;
  readonly length: number;
}

/** The contours of regions, which are found slice by slice and written region by region, in a temporary file until then. */
export class ContourSpool implements AsyncDisposable {
  readonly #regions = new Map<string, { parts: Part[]; pending: Buffer[]; bytes: number; length: number }>();
  #end = 0;

  private constructor(
    private readonly file: string,
    private readonly handle: FileHandle,
  ) {}

  /** @param file the temporary file, which is removed in the end */
  static async open(file: string): Promise<ContourSpool> {
    return new ContourSpool(file, await open(file, 'wx+'));
  }

  async add(key: string, contour: Buffer): Promise<void> {
    let region = this.#regions.get(key);
    if (!region) {
      region = { parts: [], pending: [], bytes: 0, length: 0 };
      this.#regions.set(key, region);
    }
    region.pending.push(contour);
    region.bytes += contour.length;
    region.length += contour.length;
    if (region.bytes < maxPending) return;
    region.parts.push({ from: this.#end, length: region.bytes });
    this.#end += region.bytes;
    const bytes = Buffer.concat(region.pending);
    region.pending = [];
    region.bytes = 0;
    await this.handle.appendFile(bytes);
  }

  /** The bytes of all contours of a region. */
  lengthOf(key: string): number {
    return this.#regions.get(key)?.length ?? 0;
  }

  /** Writes the contours of a region in the order in which they were added. */
  async copyTo(key: string, target: FileHandle): Promise<void> {
    const region = this.#regions.get(key);
    if (!region) return;
    const buffer = Buffer.alloc(chunk);
    for (const { from, length } of region.parts)
      for (let done = 0; done < length; ) {
        const { bytesRead } = await this.handle.read(buffer, 0, Math.min(chunk, length - done), from + done);
        if (bytesRead === 0) throw new RangeError(`${this.file} became shorter`);
        done += bytesRead;
        await target.appendFile(buffer.subarray(0, bytesRead));
      }
    await target.appendFile(Buffer.concat(region.pending));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.handle.close();
    await rm(this.file, { force: true });
  }
}
