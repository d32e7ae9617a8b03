import { expect, test } from 'vitest';
import { kindBytes, kindWithoutVolume } from '../../src/contract/file-kinds.js';

const bytes = (text: string) => Buffer.from(text, 'latin1');
const kindOf = (name: string, start = '') => kindWithoutVolume({ name, start: () => bytes(start) });

test.each([
  ['a picture', 'png jpg jpeg gif bmp webp', ['\u0089PNG\r\n', '\u00ff\u00d8\u00ff', 'GIF87a', 'GIF89a']],
  ['a table', 'csv tsv xls xlsx ods', []],
  ['a document', 'pdf doc docx txt md rtf htm html xml json yml yaml', ['%PDF-']],
  ['an archive', 'zip tar tgz 7z rar', ['PK\u0003\u0004', '7z\u00bc\u00af', 'Rar!']],
])('%s is recognised by its extension, or by its first bytes', (what, endings, begins) => {
  for (const ending of endings.split(' ')) {
    expect(kindOf(`a.${ending}`)).toBe(what);
    expect(kindOf(`a.b.${ending.toUpperCase()}`)).toBe(what);
    expect(kindOf(ending)).toBeNull();
    expect(kindOf(`a.q${ending}`)).toBeNull();
  }
  for (const begin of begins) {
    expect(kindOf('a.dat', `${begin}...`)).toBe(what);
    expect(kindOf('a', begin.slice(0, -1))).toBeNull();
    expect(kindOf('a', `x${begin}`)).toBeNull();
  }
});

test.each([
  ['series.KONFAIDIR.zip', ''],
  ['a.npz', 'PK\u0003\u0004'],
  ['a', ''],
  ['', 'x'],
])('%s may hold a volume', (name, start) => {
  expect(kindOf(name, start)).toBeNull();
});

test.each([
  ['481.3', 'a structure set of DICOM (RTSTRUCT)'],
  ['481.5', 'a plan or record of DICOM RT'],
  ['481.2', null],
  ['481.20', 'a plan or record of DICOM RT'],
  ['88.11', 'a report of DICOM (SR)'],
  ['104.1', 'a document in DICOM'],
  ['11.1', 'a presentation state of DICOM'],
  ['2', null],
  ['66.4', null],
])('A DICOM object of the class %s is %s', (last, what) => {
  const uid = `1.2.840.10008.5.1.4.1.1.${last}\0`;
  expect(kindOf('a.dcm', `${'\0'.repeat(128)}DICM${uid}`)).toBe(what);
  expect(kindOf('a.dcm', `${'\0'.repeat(128)}DICM${' '.repeat(kindBytes - 132 - uid.length)}${uid}`)).toBe(
    what,
  );
  // Of what is no DICOM, or behind what is looked at, a number means nothing.
  expect(kindOf('a.dcm', `${'\0'.repeat(127)}DICM${uid}`)).toBeNull();
  expect(kindOf('a.dcm', `${'\0'.repeat(128)}DICM${' '.repeat(kindBytes - 132)}${uid}`)).toBeNull();
});
