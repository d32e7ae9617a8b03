import { elementStart, explicitBigEndian, explicitLittleEndian } from '@remote-app/volumes';
import { expect, test } from 'vitest';
import type { PackedPiece as Piece } from '../../../src/archive/index.js';
import { pixelPieces } from '../../../src/imaging/deidentify/dicom-pixels.js';

type Given = Parameters<typeof pixelPieces>;

/** Numbers and texts of a data set, as dicom-parser reads it. */
function setOf(values: Readonly<Record<string, number | string>>): Given[1]['set'] {
  const texts = Object.entries(values).map(([tag, value]) => [tag, String(value)] as const);
  const byteArray = Buffer.from(texts.map(([, text]) => text).join(''), 'latin1');
  let dataOffset = 0;
  const elements = Object.fromEntries(
    texts.map(([tag, text]) => {
      dataOffset += text.length;
      return [tag, { tag, dataOffset: dataOffset - text.length, length: text.length }];
    }),
  );
  const uint16 = (tag: string) => (typeof values[tag] === 'number' ? values[tag] : undefined);
  return { elements, byteArray, uint16 } as unknown as Given[1]['set'];
}

const usual = { x00280010: 4, x00280011: 3, x00280100: 16 };

const leaving = (
  values: Readonly<Record<string, number | string>>,
  pixels: object,
  syntax: Given[3] = explicitLittleEndian,
) =>
  pixelPieces(
    '/nowhere',
    { set: setOf(values), deflatedFrom: null } as unknown as Given[1],
    { vr: 'OW', offset: 100, length: 1000, fragments: null, table: [], ...pixels } as unknown as Given[2],
    syntax,
  );

test.each<[string, Readonly<Record<string, number | string>>, number]>([
  ['rows, columns and bits', usual, 24],
  ['an odd number of bytes', { ...usual, x00280010: 3, x00280100: 8 }, 10],
  ['bits that fill no byte', { ...usual, x00280010: 5, x00280100: 1 }, 2],
  ['three samples', { ...usual, x00280002: 3 }, 72],
  ['half as much colour', { ...usual, x00280002: 3, x00280004: 'YBR_FULL_422' }, 48],
  ['half as much colour, in part', { ...usual, x00280002: 3, x00280004: 'YBR_PARTIAL_420' }, 48],
  ['all colour', { ...usual, x00280002: 3, x00280004: 'YBR_FULL' }, 72],
  ['five frames', { ...usual, x00280008: '5' }, 120],
  ['no number of frames', { ...usual, x00280008: 'many' }, 1000],
  ['no frames', { ...usual, x00280008: '0' }, 1000],
  ['no rows', { ...usual, x00280010: 0 }, 1000],
  ['no columns', { ...usual, x00280011: 0 }, 1000],
  ['no bits', { ...usual, x00280100: 0 }, 1000],
  ['more than there are', { ...usual, x00280010: 400 }, 1000],
])('Pixels leave as far as they are described: %s', async (_, values, length) => {
  expect(await leaving(values, {})).toEqual({
    start: elementStart('7fe00010', 'OW', length),
    pieces: [{ start: 100, end: 100 + length }],
  });
});

test('Pixels of an odd length get one byte more', async () => {
  const { start, pieces } = await leaving({}, { length: 9 }, explicitBigEndian);
  expect(start).toEqual(elementStart('7fe00010', 'OW', 10, explicitBigEndian));
  expect(pieces).toEqual([{ start: 100, end: 109 }, Buffer.alloc(1)]);
});

test.each([
  ['x7fe00008', 'UN', '7fe00008', 'OF'],
  ['x7fe00009', 'UN', '7fe00009', 'OD'],
  ['x7fe00010', 'UN', '7fe00010', 'OW'],
  ['x7fe00010', 'OB', '7fe00010', 'OB'],
  ['x7fe00008', 'OF', '7fe00008', 'OF'],
])('Pixels in %s that are %s stay where they are: %s, %s', async (there, vr, tag, written) => {
  const { start } = await leaving({ [there]: '' }, { vr, length: 8 });
  expect(start).toEqual(elementStart(tag, written, 8));
});

test('Compressed pixels are one range with their items, behind a table that tells where parts begin', async () => {
  const fragments = [
    { start: 0, offset: 208, length: 8 },
    { start: 16, offset: 224, length: 4 },
  ];
  const end = Buffer.from('feffdde000000000', 'hex');
  const table = (...offsets: number[]) =>
    Buffer.concat([
      elementStart('7fe00010', 'OB', 0xffff_ffff),
      Buffer.from('feff00e0', 'hex'),
      ...[4 * offsets.length, ...offsets].map((each) => Buffer.from(Uint32Array.of(each).buffer)),
    ]);
  const of = async (offsets: number[], parts = fragments): Promise<readonly [Buffer, readonly Piece[]]> => {
    const { start, pieces } = await leaving(usual, { fragments: parts, table: offsets });
    return [start, pieces];
  };
  const range = { start: 200, end: 228 };
  expect(await of([0, 16])).toEqual([table(0, 16), [range, end]]);
  expect(await of([0, 12])).toEqual([table(), [range, end]]);
  expect(await of([], fragments.slice(0, 1))).toEqual([table(), [{ start: 200, end: 216 }, end]]);
  expect(await of([], [])).toEqual([table(), [end]]);
});
