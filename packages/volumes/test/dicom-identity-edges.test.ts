import { describe, expect, test } from 'vitest';
import { dicomFile, type Element, element } from '../../../test/support/dicom-files.js';
import { nameOfRemoved } from '../src/attributes/index.js';
import { identityIn } from '../src/identity/index.js';
import { workspace, write } from './written.js';

const slice = (more: readonly Element[]) => ({
  ...{ pixels: new Uint16Array(16), size: [4, 4] as const, position: [0, 0, 0], more },
});
const removed = element(0x00120062, 'CS', 'YES');
const codes = [element(0x00100010, 'PN', 'case-0001'), element(0x00100020, 'LO', 'case-0001')];
const physician = element(0x00080090, 'PN', 'Canary^Ada');

const look = async (content: Buffer) =>
  identityIn(await write(await workspace(), 'scan', content), async () => {});
const attributesOf = async (more: readonly Element[]) => (await look(dicomFile(slice(more))))?.attributes;

describe('data appended to a file', () => {
  const plain = dicomFile(slice([]));
  const bytes = (...parts: (string | Buffer)[]) =>
    Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part, 'hex') : part)));
  /** What is found with these bytes behind the pixels of a file that has nothing else. */
  const behind = (...parts: (string | Buffer)[]) => look(bytes(plain, ...parts));
  const canary = `08009000504e0600${Buffer.from('Canary').toString('hex')}`;
  const physicianName = 'ReferringPhysicianName (0008,0090)';

  const [sequence, openEnd] = ['0800401153510000', 'ffffffff'];
  test.for<[string, string]>([
    ['a value representation that is none', '0800920070310600000000000000'],
    ['a value that goes on behind it', '08009200504e0700000000000000'],
    ['a length that is cut off', '080092004f4200000000'],
    ['an item that goes on behind its sequence', `${sequence}08000000feff00e0040000000000`],
    ['something in a sequence that is no item', `${sequence}080000000800920053480000`],
    ['a sequence that does not end', `${sequence}${openEnd}feff00e000000000`],
    ['a sequence that ends within an item', `${sequence}0c000000feff00e00000000000000000`],
    ['an item that says so, and ends before', `${sequence}10000000feff00e0ff000000feff0de000000000`],
    ['an item with half an element', `${sequence}${openEnd}feff00e004000000feffdde000000000`],
    [
      'an element that goes on behind its item',
      `${sequence}18000000feff00e00c00000028001100534808004142434445464748`,
    ],
    ['compressed pixels that do not end', `e07f10004f420000${openEnd}feff00e000000000`],
    [
      'something in compressed pixels that is no item',
      `e07f10004f420000${openEnd}0800920053480000feffdde000000000`,
    ],
    ['zeros, and something else', '00000000000000000000000000000001'],
  ])('A file is reported as incomplete with this data at its end: %s', async ([, hex]) => {
    expect(await behind(canary, hex)).toEqual({ attributes: [physicianName], isWhole: false });
  });

  test.for<[string, string]>([
    ['up to seven bytes', '08009000504e06'],
    ['an empty sequence', '0800401153510000' + '00000000'],
    [
      'a sequence of items without a length',
      '0800401153510000ffffffff' + 'feff00e0ffffffff' + 'feff0de000000000' + 'feffdde000000000',
    ],
    ['compressed pixels', 'e07f10004f420000ffffffff' + 'feff00e002000000' + 'ffff' + 'feffdde000000000'],
  ])('Appended data is read to the end: %s', async ([, hex]) => {
    expect(await behind(canary, hex)).toEqual({ attributes: [physicianName], isWhole: true });
  });

  test.for([
    ['00290000', []],
    ['00290001', ['private attribute (0029,0001)']],
    ['0029000f', ['private attribute (0029,000F)']],
    ['00290010', []],
    ['002900ff', []],
    ['00290100', ['private attribute (0029,0100)']],
    ['00280100', []],
  ] as const)('Attribute %s is classified as private or not', async ([tag, found]) => {
    const [group = '', number = ''] = [tag.slice(0, 4), tag.slice(4)].map(
      (part) => part.slice(2) + part.slice(0, 2),
    );
    expect((await behind(`${group}${number}4c4f0200`, Buffer.from('ab')))?.attributes).toEqual(found);
  });

  test('A value counts if any of its bytes is meaningful or it is longer than 256 bytes', async () => {
    const name = (value: Buffer) => {
      const length = Buffer.alloc(2);
      length.writeUInt16LE(value.length);
      return behind('08009000504e', length, value);
    };
    const blank = (count: number) => Buffer.alloc(count, ' ');
    const found = await Promise.all([blank(256), blank(258), bytes(blank(255), Buffer.from('x'))].map(name));
    expect(found.map((each) => each?.attributes.length)).toEqual([0, 1, 1]);
  });

  test('An attribute of undefined length counts unless it is empty', async () => {
    const items = '29001010' + '53510000ffffffff';
    expect((await behind(items, 'feffdde000000000'))?.attributes).toEqual([]);
    expect((await behind(items, 'feff00e000000000', 'feffdde000000000'))?.attributes).toEqual([
      'private attribute (0029,1010)',
    ]);
  });
});

test('Only the data set itself can say that the identity was removed', async () => {
  const nested = element(0x00081140, 'SQ', [[removed]]);
  expect(await attributesOf([nested, ...codes])).toEqual([
    'PatientName (0010,0010)',
    'PatientID (0010,0020)',
  ]);
  expect(await attributesOf([element(0x00120062, 'CS', 'YES '), ...codes])).toEqual([]);
});

test('The byte order is that of the first element, whatever the file declares', async () => {
  const file = dicomFile(slice([physician]), { isBig: true });
  const declared = Buffer.from('1.2.840.10008.1.2.2\0');
  const at = file.indexOf(declared);
  Buffer.from('1.2.840.10008.1.2.1\0').copy(file, at);
  expect(await look(file)).toEqual({ attributes: ['ReferringPhysicianName (0008,0090)'], isWhole: true });
});

test('Damaged deflated data is reported as incomplete', async () => {
  const file = dicomFile(slice([physician]), { isDeflated: true });
  expect(await look(file.subarray(0, -5))).toEqual({ attributes: [], isWhole: false });
});

test('An attribute that is left out is named by its keyword, where it is known, and its tag', () => {
  expect(['00100010', '00081030', '0008103e', '00320001', '00291010', 'fffafffa'].map(nameOfRemoved)).toEqual(
    [
      'PatientName (0010,0010)',
      'StudyDescription (0008,1030)',
      'SeriesDescription (0008,103E)',
      '(0032,0001)',
      '(0029,1010)',
      'DigitalSignaturesSequence (fffa,FFFA)',
    ],
  );
});
