import { expect, test } from 'vitest';
import { readTable } from '../src/attributes/table.js';

test('A line of the table defines which values of an attribute may be sent', () => {
  const rows = `
    00080060 CS Modality: @modality ? OT
    00280010 US|SS Rows*
    00080018 UI SOPInstanceUID
    00080016 UI SOPClassUID: well-known
    00100020 LO PatientID: pseudonym
    00080022 DA AcquisitionDate
    00081140 SQ ReferencedImageSequence
    00100010 PN PatientName: ?
    00081090 LO ManufacturerModelName: ? UNKNOWN
    00209056 SH StackID: /[0-9]{1,4}/@more ? 1
    00185100 CS PatientPosition: HFS | FFS`;
  const lists = { modality: 'CT |\n  MR | X  Y |', more: 'all' };
  const [first, ...others] = readTable([{ reason: 'why', option: 'how', only: 'timed', rows }], lists);
  expect(first).toEqual({
    ...{ tag: '00080060', vrs: ['CS'], name: 'Modality (0008,0060)', treatment: 'terms', fallback: 'OT' },
    isNeeded: false,
    ...{ maxValues: 16, reason: 'why', option: 'how', only: 'timed', allows: expect.any(Function) },
  });
  expect(['CT', 'MR', 'X Y', 'X  Y', 'ct', '', 'CT | MR'].map((each) => first?.allows(each))).toEqual([
    ...[true, true, true, false, false, false, false],
  ]);
  expect(
    others.map(({ name, vrs, treatment, fallback, maxValues }) => [
      name,
      vrs,
      treatment,
      fallback,
      maxValues,
    ]),
  ).toEqual([
    ['Rows (0028,0010)', ['US', 'SS'], 'numbers', null, Number.POSITIVE_INFINITY],
    ['SOPInstanceUID (0008,0018)', ['UI'], 'uid', null, 16],
    ['SOPClassUID (0008,0016)', ['UI'], 'well-known', null, 16],
    ['PatientID (0010,0020)', ['LO'], 'pseudonym', null, 16],
    ['AcquisitionDate (0008,0022)', ['DA'], 'time', null, 16],
    ['ReferencedImageSequence (0008,1140)', ['SQ'], 'items', null, 16],
    ['PatientName (0010,0010)', ['PN'], 'fallback', '', 16],
    ['ManufacturerModelName (0008,1090)', ['LO'], 'fallback', 'UNKNOWN', 16],
    ['StackID (0020,9056)', ['SH'], 'terms', '1', 16],
    ['PatientPosition (0018,5100)', ['CS'], 'terms', null, 16],
  ]);
  const [stack, position, name] = [others[8], others[9], others[6]];
  expect(['12', '12345', 'x12', 'all', 'HFS'].map((each) => stack?.allows(each))).toEqual([
    ...[true, false, false, true, false],
  ]);
  expect(['HFS', 'FFS', 'HFP'].map((each) => position?.allows(each))).toEqual([true, true, false]);
  expect(name?.allows('Anna')).toBe(false);
  const bare = readTable([{ reason: 'why', rows: '00280010 US Rows' }], {});
  expect(bare).toEqual([expect.objectContaining({ option: null })]);
  expect(bare[0]).not.toHaveProperty('only');
  expect(() => readTable([{ reason: 'why', rows: 'Rows' }], {})).toThrow(
    'This is no line of an attribute: Rows',
  );
  expect(() => readTable([{ reason: 'why', rows: '00280010 CS Rows: @none' }], {})).toThrow(
    /list of terms 'none'/,
  );
});
