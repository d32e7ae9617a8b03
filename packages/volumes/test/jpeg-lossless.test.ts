import { expect, test } from 'vitest';
import { decodeLosslessJpeg } from '../src/jpeg-lossless.js';

interface Image {
  readonly columns: number;
  readonly rows: number;
  readonly components: number;
  readonly precision: number;
  readonly values: readonly number[];
}

interface Way {
  readonly predictor: number;
  /** Lines between restarts. */
  readonly restart?: number;
  /** Whether each component has a scan of its own. */
  readonly isApart?: boolean;
  /** Bits that are left out at the end of each value. */
  readonly shift?: number;
  /** The number of the table of codes. */
  readonly table?: number;
  /** Bytes of ones before each marker behind values. */
  readonly fill?: number;
}

const segment = (kind: number, ...bytes: number[]) => [
  0xff,
  kind,
  (bytes.length + 2) >> 8,
  (bytes.length + 2) & 255,
  ...bytes,
];
const short = (value: number) => [value >> 8, value & 255];

/** Writes bits, with a zero after each byte of ones. */
function packed(bits: string): number[] {
  const whole = bits.padEnd(Math.ceil(bits.length / 8) * 8, '1');
  return (whole.match(/.{8}/g) ?? []).flatMap((byte) => {
    const value = Number.parseInt(byte, 2);
    return value === 255 ? [255, 0] : [value];
  });
}

/** A difference, by a table in which every code has five bits: that of a size is the size. */
function code(difference: number): string {
  const wrapped = ((difference + 32768) & 0xffff) - 32768;
  const size = wrapped === -32768 ? 16 : wrapped === 0 ? 0 : 32 - Math.clz32(Math.abs(wrapped));
  const extra = wrapped < 0 ? wrapped + (1 << size) - 1 : wrapped;
  const bits = size === 0 || size === 16 ? '' : extra.toString(2).padStart(size, '0');
  return size.toString(2).padStart(5, '0') + bits;
}

/** What T.81, table H.1, says of predictors. */
const predictors: readonly ((a: number, b: number, c: number) => number)[] = [
  () => 0,
  (a) => a,
  (_, b) => b,
  (_, __, c) => c,
  (a, b, c) => a + b - c,
  (a, b, c) => a + Math.floor((b - c) / 2),
  (a, b, c) => b + Math.floor((a - c) / 2),
  (a, b) => Math.floor((a + b) / 2),
];

function encoded(image: Image, way: Way): Buffer {
  const { columns, rows, components, precision, values } = image;
  const { predictor, restart = 0, isApart = false, shift = 0, table = 0, fill = 0 } = way;
  const filling = new Array(fill).fill(0xff);
  const at = (row: number, column: number, component: number) =>
    (values[(row * columns + column) * components + component] ?? 0) >> shift;
  const predicted = (row: number, column: number, component: number): number => {
    const isFirst = row === 0 || (restart > 0 && row % restart === 0);
    if (isFirst && column === 0) return 1 << (precision - shift - 1);
    if (isFirst) return at(row, column - 1, component);
    if (column === 0) return at(row - 1, column, component);
    const [a, b, c] = [
      at(row, column - 1, component),
      at(row - 1, column, component),
      at(row - 1, column - 1, component),
    ];
    return predictors[predictor]?.(a, b, c) ?? 0;
  };
  const all = Array.from({ length: components }, (_, index) => index);
  const scans = isApart ? all.map((index) => [index]) : [all];
  const scanOf = (own: readonly number[]): number[] => {
    const tables = own.flatMap((index) => [index + 1, table << 4]);
    const bytes = segment(0xda, own.length, ...tables, predictor, 0, shift);
    let bits = '';
    for (let row = 0; row < rows; row += 1) {
      if (restart > 0 && row > 0 && row % restart === 0) {
        bytes.push(...packed(bits), ...filling, 0xff, 0xd0 + ((row / restart - 1) % 8));
        bits = '';
      }
      for (let column = 0; column < columns; column += 1)
        for (const component of own)
          bits += code(at(row, column, component) - predicted(row, column, component));
    }
    return [...bytes, ...packed(bits)];
  };
  return Buffer.from([
    0xff,
    0xd8,
    ...segment(
      0xc4,
      table,
      0,
      0,
      0,
      0,
      17,
      ...new Array(11).fill(0),
      ...Array.from({ length: 17 }, (_, size) => size),
    ),
    ...segment(
      0xc3,
      precision,
      ...short(rows),
      ...short(columns),
      components,
      ...all.flatMap((index) => [index + 1, 0x11, 0]),
    ),
    ...(restart > 0 ? segment(0xdd, ...short(restart * columns)) : []),
    ...scans.flatMap(scanOf),
    ...filling,
    0xff,
    0xd9,
  ]);
}

/** Values that jump through the whole range, so that every size of a difference occurs. */
function imageOf(precision: number, components: number): Image {
  const [columns, rows] = [13, 9];
  const values = Array.from({ length: columns * rows * components }, (_, at) => {
    const wide = Math.imul(at + 1, 2_654_435_761) >>> (32 - precision);
    return at % 3 === 0 ? wide : wide >> (at % precision);
  });
  return { columns, rows, components, precision, values };
}

const ways = [1, 2, 3, 4, 5, 6, 7].flatMap((predictor): Way[] => [
  { predictor },
  { predictor, restart: 2 },
  { predictor, isApart: true },
]);

test.each(ways)('An image is decoded as it was encoded: %o', (way) => {
  for (const precision of [8, 12, 16])
    for (const components of [1, 3]) {
      const image = imageOf(precision, components);
      expect(decodeLosslessJpeg(encoded(image, way))).toEqual({
        data: Uint16Array.from(image.values),
        precision,
      });
    }
});

test('A truncated image is refused, wherever it ends', () => {
  const whole = encoded(imageOf(12, 1), { predictor: 1, restart: 2 });
  for (let length = 0; length < whole.length - 3; length += 1)
    expect(() => decodeLosslessJpeg(whole.subarray(0, length))).toThrow(RangeError);
});

test('An image whose components have different sizes is refused', () => {
  const bytes = encoded(imageOf(8, 3), { predictor: 1 });
  // The sizes of the first component: after the marker, the length, what is said of the frame, and the identifier.
  bytes[bytes.indexOf(Buffer.from([0xff, 0xc3])) + 11] = 0x22;
  expect(() => decodeLosslessJpeg(bytes)).toThrow('Components have different sizes.');
});

test.each<Way>([
  { predictor: 1, table: 3 },
  { predictor: 1, restart: 1, fill: 2 },
  { predictor: 7, isApart: true, fill: 1 },
])('An image with other tables and fill bytes is decoded: %o', (way) => {
  const image = imageOf(12, 3);
  expect(decodeLosslessJpeg(encoded(image, way)).data).toEqual(Uint16Array.from(image.values));
});

test('Low bits that were left out are read as zero', () => {
  const image = imageOf(12, 1);
  for (const shift of [1, 3])
    expect(decodeLosslessJpeg(encoded(image, { predictor: 5, restart: 2, shift }))).toEqual({
      data: Uint16Array.from(image.values, (value) => (value >> shift) << shift),
      precision: 12,
    });
});

test('Bytes after the last scan are ignored', () => {
  const image = imageOf(8, 3);
  const bytes = encoded(image, { predictor: 1, isApart: true }).subarray(0, -1);
  expect(decodeLosslessJpeg(Buffer.concat([bytes, Buffer.from('\u00d8 more', 'latin1')])).data).toEqual(
    Uint16Array.from(image.values),
  );
});

test.each([
  [0, 'The predictor is unknown.'],
  [8, 'The predictor is unknown.'],
])('An image with the predictor %i is refused', (predictor, message) => {
  expect(() => decodeLosslessJpeg(encoded(imageOf(8, 1), { predictor }))).toThrow(message);
});

test('An image with an impossible table, or without the table of its scan, is refused', () => {
  const bytes = encoded(imageOf(8, 1), { predictor: 1 });
  const table = bytes.indexOf(Buffer.from([0xff, 0xc4])) + 4;
  const many = Buffer.from(bytes);
  many.set([3], table + 1);
  expect(() => decodeLosslessJpeg(many)).toThrow('A table has more codes than there are.');
  const other = Buffer.from(bytes);
  other[table] = 1;
  expect(() => decodeLosslessJpeg(other)).toThrow('A component or its table is missing.');
});
