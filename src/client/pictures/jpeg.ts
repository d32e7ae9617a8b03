// Why not the encoder of jpeg-js: it makes 65,000 arrays anew for each picture, which takes several times as long as the picture,
// and writes grey as three colours.

/** A grey picture, or one with red, green and blue in turn. */
interface Raster {
  readonly width: number;
  readonly height: number;
  readonly pixels: Uint8Array;
  readonly isColour: boolean;
}

/** The order in which the 64 frequencies of a block are written. */
const zigzag = [
  0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7,
  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46,
  53, 60, 61, 54, 47, 55, 62, 63,
];

/** Annex K of ITU-T T.81: steps of the frequencies, row by row, for brightness and for colour. */
const steps = [
  [
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56, 14, 17,
    22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92, 49, 64, 78,
    87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
  ],
  [
    17,
    18,
    24,
    47,
    99,
    99,
    99,
    99,
    18,
    21,
    26,
    66,
    99,
    99,
    99,
    99,
    24,
    26,
    56,
    99,
    99,
    99,
    99,
    99,
    47,
    66,
    99,
    99,
    99,
    99,
    99,
    99,
    ...Array.from({ length: 32 }, () => 99),
  ],
] as const;

/** A Huffman code: how many words it has of 1 to 16 bits, and what they stand for. */
interface Huffman {
  readonly counts: readonly number[];
  readonly symbols: readonly number[];
}

/** Annex K: codes of differences of mean values. Brightness and colour use the same one here, and below. */
const means: Huffman = {
  counts: [0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0],
  symbols: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
};

/** Annex K: codes of the other frequencies. */
const frequencies: Huffman = {
  counts: [0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 125],
  symbols: [
    ...Buffer.from(
      '01020300041105122131410613516107227114328191a1082342b1c11552d1f02433627282090a161718191a25262728292a3435363738393a434445464748494a535455565758595a636465666768696a737475767778797a838485868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae1e2e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9fa',
      'hex',
    ),
  ],
};

/** The word and its bits of each symbol. */
function wordsOf({ counts, symbols }: Huffman): readonly { readonly word: number; readonly bits: number }[] {
  const words: { word: number; bits: number }[] = [];
  let [word, at] = [0, 0];
  for (const [index, count] of counts.entries()) {
    for (let left = count; left > 0; left -= 1) {
      words[symbols[at] ?? 0] = { word, bits: index + 1 };
      word += 1;
      at += 1;
    }
    word <<= 1;
  }
  return words;
}
const [meanWords, frequencyWords] = [wordsOf(means), wordsOf(frequencies)];
/** The symbols for 16 zeros, and for nothing but zeros to the end of the block. */
const [sixteenZeros, end] = [0xf0, 0x00];

/** The discrete cosine transform of eight values: a row for each frequency. */
const cosines = Float64Array.from({ length: 64 }, (_, at) => {
  const [frequency, x] = [at >> 3, at & 7];
  return (frequency === 0 ? Math.SQRT1_2 / 2 : 0.5) * Math.cos(((2 * x + 1) * frequency * Math.PI) / 16);
});

/** Bytes that grow, to which bits are written. */
class BitWriter {
  #bytes = Buffer.allocUnsafe(16 * 1024);
  #length = 0;
  #bits = 0;
  #count = 0;

  byte(value: number): void {
    if (this.#length === this.#bytes.length) this.#bytes = Buffer.concat([this.#bytes], this.#length * 2);
    this.#bytes[this.#length] = value;
    this.#length += 1;
  }

  /** A segment of the file: its marker, its length and its content. */
  segment(marker: number, content: readonly number[]): void {
    const length = content.length + 2;
    for (const value of [0xff, marker, length >> 8, length & 0xff, ...content]) this.byte(value);
  }

  write(word: number, bits: number): void {
    this.#bits = (this.#bits << bits) | word;
    this.#count += bits;
    while (this.#count >= 8) {
      this.#count -= 8;
      const value = (this.#bits >> this.#count) & 0xff;
      this.byte(value);
      // A zero behind it tells it from a marker.
      if (value === 0xff) this.byte(0);
    }
    this.#bits &= (1 << this.#count) - 1;
  }

  /** All bytes. What is left of the last one is filled with ones, and the end of the picture follows. */
  end(): Buffer {
    if (this.#count > 0) this.write((1 << (8 - this.#count)) - 1, 8 - this.#count);
    this.byte(0xff);
    this.byte(0xd9);
    return this.#bytes.subarray(0, this.#length);
  }
}

/** Bits that a number needs without its sign. */
const sizeOf = (value: number): number => 32 - Math.clz32(Math.abs(value));

/** Writes a number whose size is known to the reader; a negative one without its leading zeros, less one. */
const writeValue = (writer: BitWriter, value: number, bits: number): void =>
  writer.write(value < 0 ? value + (1 << bits) - 1 : value, bits);

const [block, half] = [new Float64Array(64), new Float64Array(64)];
const quantised = new Int32Array(64);

/** Transforms the values in `block`, and leaves them as whole steps in `quantised`, in the order of writing. */
function transform(table: readonly number[]): void {
  for (let row = 0; row < 64; row += 8)
    for (let u = 0; u < 64; u += 8) {
      let sum = 0;
      for (let x = 0; x < 8; x += 1) sum += (block[row + x] as number) * (cosines[u + x] as number);
      half[row + (u >> 3)] = sum;
    }
  for (let u = 0; u < 8; u += 1)
    for (let v = 0; v < 64; v += 8) {
      let sum = 0;
      for (let y = 0; y < 8; y += 1) sum += (half[y * 8 + u] as number) * (cosines[v + y] as number);
      block[v + u] = sum;
    }
  for (let at = 0; at < 64; at += 1) {
    const from = zigzag[at] as number;
    quantised[at] = Math.round((block[from] as number) / (table[from] as number));
  }
}

/** Writes the block in `quantised`. Returns its mean, from which the next one differs. */
function writeBlock(writer: BitWriter, before: number): number {
  const put = ({ word, bits } = { word: 0, bits: 0 }) => writer.write(word, bits);
  const mean = quantised[0] as number;
  put(meanWords[sizeOf(mean - before)]);
  writeValue(writer, mean - before, sizeOf(mean - before));
  let zeros = 0;
  for (let at = 1; at < 64; at += 1) {
    const value = quantised[at] as number;
    if (value === 0) {
      zeros += 1;
      continue;
    }
    for (; zeros > 15; zeros -= 16) put(frequencyWords[sixteenZeros]);
    put(frequencyWords[(zeros << 4) | sizeOf(value)]);
    writeValue(writer, value, sizeOf(value));
    zeros = 0;
  }
  if (zeros > 0) put(frequencyWords[end]);
  return mean;
}

/** What a component of YCbCr takes of red, green and blue, and what is added. */
const mixtures = [
  [0.299, 0.587, 0.114, -128],
  [-0.168736, -0.331264, 0.5, 0],
  [0.5, -0.418688, -0.081312, 0],
] as const;

/** Puts the values of a component around a corner into `block`; beyond the edges the last row and column go on. */
function readBlock(
  { width, height, pixels, isColour }: Raster,
  left: number,
  top: number,
  part: number,
): void {
  const [red, green, blue, offset] = mixtures[part] ?? mixtures[0];
  for (let at = 0; at < 64; at += 1) {
    const y = Math.min(top + (at >> 3), height - 1);
    const pixel = y * width + Math.min(left + (at & 7), width - 1);
    const [r, g, b] = [pixels[pixel * 3], pixels[pixel * 3 + 1], pixels[pixel * 3 + 2]] as [
      number,
      number,
      number,
    ];
    block[at] = isColour ? red * r + green * g + blue * b + offset : (pixels[pixel] as number) - 128;
  }
}

/** A picture as JPEG: baseline, without subsampling. @param quality from 1 to 100 */
export function encodeJpeg(raster: Raster, quality: number): Buffer {
  const { width, height, isColour } = raster;
  const writer = new BitWriter();
  const scale = quality < 50 ? 5000 / quality : 200 - 2 * quality;
  const tables = steps.map((table) =>
    table.map((step) => Math.min(255, Math.max(1, Math.floor((step * scale + 50) / 100)))),
  );
  const parts = isColour ? [0, 1, 2] : [0];
  const tableOf = (part: number) => Math.min(part, 1);
  writer.byte(0xff);
  writer.byte(0xd8);
  writer.segment(0xe0, [...Buffer.from('JFIF\0'), 1, 1, 0, 0, 1, 0, 1, 0, 0]);
  for (const [at, table] of tables.slice(0, isColour ? 2 : 1).entries())
    writer.segment(0xdb, [at, ...zigzag.map((from) => table[from] as number)]);
  const sampling = parts.flatMap((part) => [part + 1, 0x11, tableOf(part)]);
  writer.segment(0xc0, [8, height >> 8, height & 0xff, width >> 8, width & 0xff, parts.length, ...sampling]);
  for (const [at, { counts, symbols }] of [means, frequencies].entries())
    writer.segment(0xc4, [at << 4, ...counts, ...symbols]);
  writer.segment(0xda, [parts.length, ...parts.flatMap((part) => [part + 1, 0]), 0, 63, 0]);
  const before = [0, 0, 0];
  for (let top = 0; top < height; top += 8)
    for (let left = 0; left < width; left += 8)
      for (const part of parts) {
        readBlock(raster, left, top, part);
        transform(tables[tableOf(part)] ?? []);
        before[part] = writeBlock(writer, before[part] ?? 0);
      }
  return writer.end();
}
