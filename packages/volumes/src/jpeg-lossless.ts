/** A code table: for each possible sequence of 16 bits, the length of the code at its start, and the symbol. */
interface HuffmanTable {
  readonly lengths: Uint8Array;
  readonly symbols: Uint8Array;
}

const marker = {
  startOfFrame: 0xc3,
  huffman: 0xc4,
  startOfScan: 0xda,
  restartInterval: 0xdd,
  end: 0xd9,
} as const;

/**
 * Decodes lossless JPEG with Huffman coding (ITU T.81, annex H), with any predictor, restarts, and components in one or several
 * scans.
 * @throws RangeError for a damaged file, and for another kind of JPEG
 */
export function decodeLosslessJpeg(bytes: Buffer): {
  readonly data: Uint16Array;
  readonly precision: number;
} {
  const tables: HuffmanTable[] = [];
  let frame: FrameHeader | null = null;
  let data = new Uint16Array(0);
  let interval = 0;
  let left = 0;
  let at = 2;
  for (;;) {
    while (bytes.readUInt8(at) === 0xff && bytes.readUInt8(at + 1) === 0xff) at += 1;
    if (bytes.readUInt8(at) !== 0xff) throw new RangeError('A marker is missing.');
    const kind = bytes.readUInt8(at + 1);
    if (kind === marker.end) break;
    const segment = bytes.subarray(at + 4, at + 2 + bytes.readUInt16BE(at + 2));
    at += 2 + bytes.readUInt16BE(at + 2);
    if (kind === marker.huffman) readTables(segment, tables);
    else if (kind === marker.restartInterval) interval = segment.readUInt16BE(0);
    else if (kind === marker.startOfFrame) {
      frame = frameOf(segment);
      left = frame.components.length;
      data = new Uint16Array(frame.rows * frame.columns * left);
    } else if (kind === marker.startOfScan) {
      if (!frame) throw new RangeError('There is no frame.');
      const scan = scanOf(segment, frame, tables);
      at = decodeScan(bytes, at, scan, frame, interval, data);
      left -= scan.components.length;
      // Anything after the last scan is ignored.
      if (left <= 0) break;
    }
  }
  if (!frame || left > 0) throw new RangeError('Components are missing.');
  return { data, precision: frame.precision };
}

type FrameHeader = ReturnType<typeof frameOf>;

/** The header of a frame, with the identifiers of its components. */
function frameOf(segment: Buffer) {
  const components = Array.from({ length: segment.readUInt8(5) }, (_, index) => {
    if (segment.readUInt8(7 + index * 3) !== 0x11) throw new RangeError('Components have different sizes.');
    return segment.readUInt8(6 + index * 3);
  });
  return {
    precision: segment.readUInt8(0),
    rows: segment.readUInt16BE(1),
    columns: segment.readUInt16BE(3),
    components,
  };
}

function readTables(segment: Buffer, tables: HuffmanTable[]): void {
  let at = 0;
  while (at < segment.length) {
    const lengths = new Uint8Array(0x1_0000);
    const symbols = new Uint8Array(0x1_0000);
    const index = segment.readUInt8(at) & 15;
    let value = at + 17;
    let code = 0;
    for (let length = 1; length <= 16; length += 1) {
      for (let left = segment.readUInt8(at + length); left > 0; left -= 1) {
        const [from, to] = [code << (16 - length), (code + 1) << (16 - length)];
        if (to > 0x1_0000) throw new RangeError('A table has more codes than there are.');
        lengths.fill(length, from, to);
        symbols.fill(segment.readUInt8(value), from, to);
        value += 1;
        code += 1;
      }
      code <<= 1;
    }
    tables[index] = { lengths, symbols };
    at = value;
  }
}

/** Predictors from the values to the left, above, and diagonally above left (table H.1). */
const predictors: readonly ((left: number, above: number, corner: number) => number)[] = [
  (left) => left,
  (_left, above) => above,
  (_left, _above, corner) => corner,
  (left, above, corner) => left + above - corner,
  (left, above, corner) => left + ((above - corner) >> 1),
  (left, above, corner) => above + ((left - corner) >> 1),
  (left, above) => (left + above) >> 1,
];

/**
 * The header of a scan: the index of each component in a pixel with its table, the predictor, and the number of low bits that were
 * dropped (point transform).
 */
function scanOf(segment: Buffer, frame: FrameHeader, tables: readonly HuffmanTable[]) {
  const count = segment.readUInt8(0);
  const components = Array.from({ length: count }, (_, each) => {
    const index = frame.components.indexOf(segment.readUInt8(1 + each * 2));
    const table = tables[segment.readUInt8(2 + each * 2) >> 4];
    if (index < 0 || !table) throw new RangeError('A component or its table is missing.');
    return { index, table };
  });
  const predict = predictors[segment.readUInt8(1 + count * 2) - 1];
  const shift = segment.readUInt8(3 + count * 2) & 15;
  if (count === 0 || !predict) throw new RangeError('The predictor is unknown.');
  return { components, predict, shift };
}

/** Decodes one scan into the data. @returns the position of the next marker */
function decodeScan(
  bytes: Buffer,
  from: number,
  scan: ReturnType<typeof scanOf>,
  frame: FrameHeader,
  interval: number,
  data: Uint16Array,
): number {
  const { components, predict, shift } = scan;
  const { rows, columns } = frame;
  const step = frame.components.length;
  const line = columns * step;
  const first = 1 << (frame.precision - shift - 1);
  const bits = new Bits(bytes, from);
  let untilRestart = interval;
  // The line after a restart is predicted like the first line.
  let isFirstLine = true;
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      let isStart = row === 0 && column === 0;
      if (interval > 0 && untilRestart === 0) {
        bits.restart();
        untilRestart = interval;
        isFirstLine = true;
        isStart = true;
      } else if (column === 0 && row > 0) isFirstLine = false;
      untilRestart -= 1;
      const pixel = row * line + column * step;
      for (const { index, table } of components) {
        const at = pixel + index;
        let predicted = first;
        if (!isStart) {
          const left = column > 0 ? (data[at - step] ?? 0) : 0;
          const above = row > 0 ? (data[at - line] ?? 0) : 0;
          if (isFirstLine) predicted = left;
          else if (column === 0) predicted = above;
          else predicted = predict(left, above, data[at - line - step] ?? 0);
        }
        data[at] = predicted + bits.difference(table);
      }
    }
  }
  if (shift > 0)
    for (const { index } of components)
      for (let at = index; at < data.length; at += step) data[at] = (data[at] ?? 0) << shift;
  return bits.end();
}

/** Reads the bits of a scan, without stuffed zero bytes. */
class Bits {
  #kept = 0;
  #count = 0;
  /** Number of bits beyond the end of the scan, which may be peeked at but not consumed. */
  #missing = 0;

  constructor(
    private readonly bytes: Buffer,
    private at: number,
  ) {}

  #fill(): void {
    while (this.#count <= 16) {
      const byte = this.bytes[this.at];
      const next = this.bytes[this.at + 1];
      this.#count += 8;
      if (byte === undefined || (byte === 0xff && next !== 0)) {
        this.#kept = (this.#kept << 8) >>> 0;
        this.#missing += 8;
      } else {
        this.#kept = ((this.#kept << 8) | byte) >>> 0;
        this.at += byte === 0xff ? 2 : 1;
      }
    }
  }

  #take(count: number): number {
    this.#fill();
    this.#count -= count;
    if (this.#count < this.#missing) throw new RangeError('The scan ends early.');
    const value = (this.#kept >>> this.#count) & ((1 << count) - 1);
    this.#kept &= (1 << this.#count) - 1;
    return value;
  }

  /** Reads the next difference between a value and its prediction. */
  difference({ lengths, symbols }: HuffmanTable): number {
    this.#fill();
    const ahead = (this.#kept >>> (this.#count - 16)) & 0xffff;
    const length = lengths[ahead] ?? 0;
    if (length === 0) throw new RangeError('A code is unknown.');
    const size = symbols[ahead] ?? 0;
    this.#take(length);
    if (size === 0) return 0;
    if (size >= 16) return 32768;
    const value = this.#take(size);
    return value < 1 << (size - 1) ? value - (1 << size) + 1 : value;
  }

  /** Skips the marker of a restart. */
  restart(): void {
    this.at = this.end();
    const kind = this.bytes[this.at + 1] ?? 0;
    if (kind < 0xd0 || kind > 0xd7) throw new RangeError('A restart is missing.');
    this.at += 2;
    [this.#kept, this.#count, this.#missing] = [0, 0, 0];
  }

  /** The position of the marker that ends these bits. */
  end(): number {
    let at = this.at;
    while (at + 1 < this.bytes.length && !(this.bytes[at] === 0xff && (this.bytes[at + 1] ?? 0) > 0)) at += 1;
    while (this.bytes[at + 1] === 0xff) at += 1;
    return at;
  }
}
