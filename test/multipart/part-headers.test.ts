import { describe, expect, test } from 'vitest';
import { readPartHeaders } from '../../src/multipart/index.js';

/** As it comes over the wire: one character a byte. */
const read = (header: string) =>
  readPartHeaders({ 'content-disposition': Buffer.from(header).toString('latin1') });

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
    // .NET, and Java's clients, which send both.
    ["form-data; name=inputs; filename=a; filename*=utf-8''b", 'inputs', 'b'],
    ['form-data; name=inputs; filename*=utf-8\'en\'b; filename="a"', 'inputs', 'b'],
    [
      'form-data; name=inputs; filename="=?utf-8?B?U2M=?="; filename*=utf-8\'\'Sch%C3%A4del.nii',
      'inputs',
      'Schädel.nii',
    ],
    ['form-data; name=inputs; filename="Sch?del"; filename*="UTF-8\'\'Sch%C3%A4del"', 'inputs', 'Schädel'],
    ['form-data; name=inputs; filename="a"; filename*=iso-8859-1\'\'%E4%A3.nii', 'inputs', 'ä£.nii'],
    // Of no use: not well formed, of an unknown charset, not in its charset, empty.
    ['form-data; name=inputs; filename="a"; filename*=b', 'inputs', 'a'],
    ['form-data; name=inputs; filename="a"; filename*=klingon\'\'b', 'inputs', 'a'],
    ['form-data; name=inputs; filename="a"; filename*=utf-8\'\'%E4', 'inputs', 'a'],
    ['form-data; name=inputs; filename="a"; filename*=utf-8\'\'', 'inputs', 'a'],
    ['form-data; name=inputs; filename*=b%20c', 'inputs', 'b c'],
    ["form-data; name=inputs; filename*=''b%20c", 'inputs', 'b c'],
    ["form-data; name=inputs; filename*=UTF-8''%EF%BB%BFb", 'inputs', '\ufeffb'],
    // Quotation marks and backslashes, as browsers, Go, curl, Python and old browsers write them.
    ['form-data; name=inputs; filename="%22a%22; b.nii"', 'inputs', '"a"; b.nii'],
    ['form-data; name=inputs; filename="\\"a\\"; name=evil.nii"; x=y', 'inputs', '"a"; name=evil.nii'],
    ['form-data; name=inputs; filename="a\\\\"; x="b"', 'inputs', 'a\\\\'],
    ['form-data; name=inputs; filename="C:\\scans\\"', 'inputs', 'C:\\scans\\'],
    ['form-data; name=inputs; filename="a\\"; x="b\\"', 'inputs', 'a\\'],
    ['form-data; name=inputs; filename="100%.nii"', 'inputs', '100%.nii'],
    ['form-data; name=inputs; filename="頭 é🧠.nii"', 'inputs', '頭 é🧠.nii'],
    ['form-data; name="first"; name="second"', 'first', null],
    ['form-data; name=""', '', null],
    ['form-data; name="never ends', '"never ends', null],
    ['form-data; name="never ends; filename="x', '"never ends', '"x'],
    ['form-data; name=', '', null],
  ] as const)('The names of a part are read from: %s', ([header, field, file]) => {
    expect(read(header)).toEqual({ field, file, size: null });
  });

  test.for(['form-data; =x; name=inputs', 'form-data', '', ';;;'])('No name is found in: %s', (header) => {
    expect(() => read(header)).toThrow('A part of the form has no name');
  });

  test.for([
    ['0', 0],
    ['123456789012345', 123_456_789_012_345],
    ['1234567890123456', null],
    ['-1', null],
    ['1 ', null],
    ['', null],
  ] as const)('The names of a part come with the size of its content: %j', ([size, bytes]) => {
    const headers = { 'content-disposition': 'form-data; name=a', 'remote-app-size': size };
    expect(readPartHeaders(headers)).toEqual({ field: 'a', file: null, size: bytes });
  });

  test('The names of a part that are not UTF-8 are refused', () => {
    const latin1 = { 'content-disposition': 'form-data; name=inputs; filename="é"' };
    expect(() => readPartHeaders(latin1)).toThrow('A file name is not UTF-8');
    expect(() => read("form-data; name=inputs; filename*=utf-8''%E4")).toThrow('A file name is not UTF-8');
  });

  test.for([
    'name="',
    'filename="',
    '"; ',
    '; name=',
    ';',
    '" ',
    '=',
    '%22',
    '\\"',
    ' ',
    ';a=" x',
    '=?',
    '=?a?b?',
    '=?a?q?x?= ',
    '\\',
  ])('The names of a part are read in linear time: %s', (piece) => {
    const before = performance.now();
    for (const start of ['form-data; name=a; x=', 'form-data; name="', 'form-data; name=a; filename=']) {
      read(start + piece.repeat(200_000 / piece.length));
    }
    expect(performance.now() - before).toBeLessThan(2000);
  });
});
