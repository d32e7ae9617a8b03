import { describe, expect, test } from 'vitest';
import { partNames } from '../../../src/server/uploads/part-names.js';

describe('the names of a part', () => {
  test.for([
    ['form-data; name="inputs"; filename="a.nii"', 'inputs', 'a.nii'],
    ['form-data; name=inputs; filename=a.nii', 'inputs', 'a.nii'],
    ['form-data;name="inputs";filename="a.nii"', 'inputs', 'a.nii'],
    ['form-data; NAME="inputs" ; FileName="a.nii" ', 'inputs', 'a.nii'],
    ['form-data; filename="x; name=evil"; name="inputs"', 'inputs', 'x; name=evil'],
    ['form-data; name="inputs"; filename="a"b".nii"', 'inputs', 'a"b".nii'],
    ['form-data; name="inputs"; filename="a\\"b%22.nii"', 'inputs', 'a"b".nii'],
    ['form-data; name="inputs"; filename="C:\\scans\\a.nii"', 'inputs', 'C:\\scans\\a.nii'],
    ['form-data; name="inputs"; filename=""', 'inputs', ''],
    ['form-data; name="inputs"; filename*=UTF-8\'\'a%20b.nii', 'inputs', 'a b.nii'],
    ['form-data; name="inputs"; filename*=utf-8\'\'b; filename="a"', 'inputs', 'a'],
    ['form-data; name="first"; name="second"', 'first', null],
    ['form-data; name=""', '', null],
    ['form-data; name="never ends', '"never ends', null],
    ['form-data; name="never ends; filename="x', '"never ends', '"x'],
    ['form-data; name=', '', null],
    ['form-data; =x; name=inputs', null, null],
    ['form-data', null, null],
    ['', null, null],
    [';;;', null, null],
  ] as const)('are read from: %s', ([header, field, file]) => {
    expect(partNames(header)).toEqual({ field, file });
  });

  test.for(['name="', 'filename="', '"; ', '; name=', ';', '" ', '=', '%22', '\\"', ' ', ';a=" x'])(
    'are read in linear time: %s',
    (piece) => {
      const before = performance.now();
      for (const start of ['', 'form-data; name="', 'form-data; filename=']) {
        partNames(start + piece.repeat(200_000 / piece.length));
      }
      expect(performance.now() - before).toBeLessThan(2000);
    },
  );
});
