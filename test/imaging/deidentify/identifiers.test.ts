import { writeFileSync } from 'node:fs';
import { chmod, readFile, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { workspace, write } from '../../../packages/volumes/test/written.js';
import { UsageError } from '../../../src/client/errors.js';
import { profileKey } from '../../../src/imaging/deidentify/key.js';
import { Pseudonyms } from '../../../src/imaging/deidentify/uids.js';
import { dicomFile, type Element, element } from '../../support/dicom-files.js';
import { cleaned, parsed } from './cleaned.js';

describe('the key of a profile', () => {
  test('Each profile gets its own key once, and only its owner can read it', async () => {
    const directory = path.join(await workspace(), 'config');
    const key = profileKey(directory, 'default');
    expect(key).toHaveLength(32);
    const other = profileKey(directory, 'lab');
    expect(other.equals(key)).toBe(false);
    expect(profileKey(directory, 'default').equals(key)).toBe(true);
    expect(profileKey(directory, 'lab').equals(other)).toBe(true);
    const { mode } = await stat(path.join(directory, 'pseudonym-keys.json'));
    expect([mode & 0o777, (await stat(directory)).mode & 0o777]).toEqual([0o600, 0o700]);
  });

  test.each([
    ['{"keys": {"default": "c2hvcnQ="}}', "that of 'default' is damaged"],
    ['{"keys": {"default": 7}}', "that of 'default' is damaged"],
    ['{"keys": 1}', 'it holds no keys'],
    ['{"keys": null}', 'it holds no keys'],
    ['[]', 'it holds no keys'],
    ['no JSON', 'it is not JSON'],
  ])('A damaged file is not replaced by a new key: %s', async (text, problem) => {
    const directory = await workspace();
    await chmod(directory, 0o700);
    const file = path.join(directory, 'pseudonym-keys.json');
    await writeFile(file, text);
    expect(() => profileKey(directory, 'default')).toThrow(
      new UsageError(
        `The keys of pseudonyms in ${file} cannot be read: ${problem}; put back a copy of it, or move it away: ` +
          'then scans get other identifiers than before',
      ),
    );
    expect(await readFile(file, 'utf8')).toBe(text);
  });

  test('A key that another command has created meanwhile is used', async () => {
    const directory = await workspace();
    const file = path.join(directory, 'pseudonym-keys.json');
    await writeFile(file, '{"keys": {}}');
    const other = Buffer.alloc(32, 5).toString('base64');
    // The name of the profile is asked for after the file was read.
    const profile = {
      toString: () => {
        writeFileSync(file, JSON.stringify({ keys: { default: other } }));
        return 'default';
      },
    };
    expect(profileKey(directory, profile as unknown as string).toString('base64')).toBe(other);
    expect(profileKey(directory, 'default').toString('base64')).toBe(other);
  });

  test('The directory of the key of a profile is closed to others', async () => {
    const directory = await workspace();
    await chmod(directory, 0o755);
    profileKey(directory, 'default');
    expect((await stat(directory)).mode & 0o777).toBe(0o700);
  });
});

test('A UID is replaced by a UUID in decimal form, derived from an HMAC with the key', () => {
  const [one, other] = [new Pseudonyms(Buffer.alloc(32, 1)), new Pseudonyms(Buffer.alloc(32, 2))];
  const uid = one.uid('1.2.840.113619.2.1');
  expect(uid).toBe('2.25.159109773605820975122722493752799913355');
  expect(other.uid('1.2.840.113619.2.1')).not.toBe(uid);
  const hexadecimal = BigInt(uid.slice(5)).toString(16).padStart(32, '0');
  expect(hexadecimal).toMatch(/^.{12}8.{3}[89ab].{15}$/);
});

test('A patient number always gets the same pseudonym, and dates are moved back by at least one and less than eleven years', () => {
  const of = new Pseudonyms(Buffer.alloc(32, 1));
  expect([of.patient('4711'), of.daysBack('4711')]).toEqual(['D763B9514866306F', 3608]);
  expect(new Pseudonyms(Buffer.alloc(32, 2)).patient('4711')).not.toBe(of.patient('4711'));
  const days = Array.from({ length: 3000 }, (_, id) => of.daysBack(String(id)));
  expect([Math.min(...days) >= 366, Math.max(...days) < 366 + 3650, new Set(days).size > 1500]).toEqual([
    ...[true, true, true],
  ]);
});

const PET = '1.2.840.10008.5.1.4.1.1.128';
const MR = '1.2.840.10008.5.1.4.1.1.4';
const enhancedMR = '1.2.840.10008.5.1.4.1.1.4.1';

/** The elements that leave of a file with these. */
async function elementsOf(sopClass: string, ...more: Element[]) {
  const given = { pixels: new Uint16Array(4), size: [2, 2] as const, position: [0, 0, 0] };
  const bytes = dicomFile({ ...given, more: [element(0x00080016, 'UI', sopClass), ...more] });
  return parsed(await cleaned(await write(await workspace(), 'scan.dcm', bytes)));
}

const study = (date: string, time: string) => [
  element(0x00100020, 'LO', '4711'),
  element(0x00080020, 'DA', date),
  element(0x00080030, 'TM', time),
];
const dayOf = (text = '') =>
  Date.UTC(Number(text.slice(0, 4)), Number(text.slice(4, 6)) - 1, Number(text.slice(6))) / 86_400_000;

test('A private SOP class is replaced like an identifier, and a standard one is kept', async () => {
  const own = '1.2.826.0.1.3680043.9.1';
  const given = { pixels: new Uint16Array(4), size: [2, 2] as const, position: [0, 0, 0] };
  const bytes = dicomFile({ ...given, more: [element(0x00080016, 'UI', own)] });
  const left = await cleaned(await write(await workspace(), 'scan.dcm', bytes), 'other-image');
  expect(parsed(left).string('x00080016')).toMatch(/^2\.25\.\d+$/);
  expect(parsed(left).string('x00020002')).toBe(parsed(left).string('x00080016'));
  expect((await elementsOf(MR)).string('x00080016')).toBe(MR);
});

describe('times', () => {
  const injected = (time: string, moment: string) =>
    element(0x00540016, 'SQ', [
      [
        element(0x00181072, 'TM', time),
        element(0x00181078, 'DT', moment),
        element(0x00181074, 'DS', '370000000'),
        element(0x00181075, 'DS', '6586.2'),
      ],
    ]);

  test('The times of PET are shifted so that the study begins at eight, and keep their differences past midnight', async () => {
    const set = await elementsOf(
      PET,
      ...study('20240301', '003000'),
      element(0x00080022, 'DA', '20240301'),
      element(0x00080032, 'TM', '004500.250000'),
      element(0x00080021, 'DA', '20240229'),
      element(0x00080031, 'TM', '235900'),
      injected('235000', '20240229235000.5+0100'),
    );
    expect(set.string('x00080030')).toBe('080000');
    expect(set.string('x00080032')).toBe('081500.250000');
    expect(set.string('x00080031')).toBe('072900');
    const dose = set.elements.x00540016?.items?.[0]?.dataSet;
    expect(dose?.string('x00181072')).toBe('072000');
    const day = set.string('x00080020');
    expect(day).toBe(set.string('x00080022'));
    expect(day).toBe(set.string('x00080021'));
    expect(dose?.string('x00181078')).toBe(`${day}072000.5`);
    expect(dose?.string('x00181074')).toBe('370000000');
    expect(dayOf('20240301') - dayOf(day)).toBeGreaterThan(365);
    expect(set.string('x00280303')).toBe('MODIFIED');
  });

  test('The days between two studies of a patient are kept', async () => {
    const [one, other] = [
      await elementsOf(PET, ...study('20231231', '120000')),
      await elementsOf(PET, ...study('20240301', '093000')),
    ];
    expect(dayOf(other.string('x00080020')) - dayOf(one.string('x00080020'))).toBe(61);
    expect(other.string('x00080030')).toBe('080000');
  });

  test('Times that are invalid, or cannot be separated from the hour of the scan, are not sent', async () => {
    const wrong = await elementsOf(PET, ...study('20241399', '120000'));
    expect(wrong.elements.x00080020).toBeUndefined();
    const unknown = await elementsOf(PET, element(0x00080022, 'DA', '20240301'));
    expect(unknown.elements.x00080022).toBeUndefined();
  });

  test('Times are sent only with PET and enhanced objects', async () => {
    const more = [...study('20240301', '120000'), element(0x00080023, 'DA', '20240301')];
    const plain = await elementsOf(MR, ...more);
    expect(plain.elements.x00080020?.length).toBe(0);
    expect(plain.elements.x00080023).toBeUndefined();
    const several = await elementsOf(enhancedMR, ...more);
    expect(several.string('x00080023')).toBe(several.string('x00080020'));
    expect(several.string('x00080023')).not.toBe('20240301');
  });
});

test('Weight, size and sex are sent only with PET, which says so', async () => {
  const person = [
    element(0x00100040, 'CS', 'F'),
    element(0x00101020, 'DS', '1.7'),
    element(0x00101030, 'DS', '62.5'),
    element(0x00101010, 'AS', '071Y'),
  ];
  const uptake = await elementsOf(PET, ...person);
  expect(['x00100040', 'x00101020', 'x00101030'].map((tag) => uptake.string(tag))).toEqual([
    'F',
    '1.7',
    '62.5',
  ]);
  expect(uptake.elements.x00101010).toBeUndefined();
  const codes = uptake.elements.x00120064?.items?.map(({ dataSet }) => dataSet?.string('x00080100'));
  expect(codes).toEqual(['113100', '113108']);
  const plain = await elementsOf(MR, ...person);
  expect(plain.elements.x00100040?.length).toBe(0);
  expect(plain.elements.x00101030).toBeUndefined();
});

test('An enhanced object keeps the place and diffusion of each frame', async () => {
  const frame = [
    element(0x00209113, 'SQ', [[element(0x00200032, 'DS', '1\\2\\3')]]),
    element(0x00209111, 'SQ', [[element(0x00209157, 'UL', Buffer.from('0100000002000000', 'hex'))]]),
    element(0x00189117, 'SQ', [[element(0x00189087, 'FD', Buffer.from('0000000000408f40', 'hex'))]]),
  ];
  const set = await elementsOf(enhancedMR, element(0x52009230, 'SQ', [frame, frame]));
  const frames = set.elements.x52009230?.items ?? [];
  expect(frames).toHaveLength(2);
  const groups = frames[1]?.dataSet?.elements;
  expect(groups?.x00209113?.items?.[0]?.dataSet?.string('x00200032')).toBe('1\\2\\3');
  expect(groups?.x00209111?.items?.[0]?.dataSet?.uint32('x00209157', 1)).toBe(2);
  expect(groups?.x00189117?.items?.[0]?.dataSet?.double('x00189087')).toBe(1000);
});

test('A code of a terminology keeps its value, but no unknown words', async () => {
  const code = (value: string, meaning: string) => [
    element(0x00080100, 'SH', value),
    element(0x00080102, 'SH', 'SCT'),
    element(0x00080104, 'LO', meaning),
  ];
  const set = await elementsOf(
    MR,
    element(0x00082218, 'SQ', [code('12738006', 'Brain'), code('Meier', 'Anna')]),
  );
  const items = set.elements.x00082218?.items?.map(({ dataSet }) => [
    dataSet?.string('x00080100'),
    dataSet?.string('x00080104'),
  ]);
  expect(items).toEqual([
    ['12738006', 'Brain'],
    ['REMOVED', 'see the code'],
  ]);
});
