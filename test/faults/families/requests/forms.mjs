import { gzipSync } from 'node:zlib';
import {
  boundary,
  fieldPart,
  filePart,
  multipart,
  multipartType,
  requestHead,
  sizedPart,
} from '../../../support/multipart.mjs';
import { chunk } from '../../support/pour.mjs';

const path = '/apps/witness/infer';
const valid = multipart([filePart('inputs', 'scan.nii')]);
const refused = [400, 408, 411, 413, 415, 422, 431, 501, 0];
const either = [200, ...refused];

const whole = (body, type = multipartType, headers = []) => [
  requestHead('POST', path, [
    `Content-Type: ${type}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    ...headers,
  ]),
  Buffer.from(body),
];
const part = (header, content = 'x') => ({ headers: [header], content });
const scan = filePart('inputs', 'scan.nii');
const named = (disposition) => part(`Content-Disposition: form-data; ${disposition}`);

const types = {
  'no boundary': 'multipart/form-data',
  'an empty boundary': 'multipart/form-data; boundary=',
  'an empty quoted boundary': 'multipart/form-data; boundary=""',
  'a boundary of 3,000 characters': `multipart/form-data; boundary=${'b'.repeat(3000)}`,
  'a boundary of line ends': 'multipart/form-data; boundary="%0D%0A"',
  'a boundary of a dash': 'multipart/form-data; boundary=-',
  'two boundaries': `multipart/form-data; boundary=${boundary}; boundary=other`,
  'a boundary that does not come': 'multipart/form-data; boundary=other',
  'the type multipart/mixed': `multipart/mixed; boundary=${boundary}`,
  'a type of its own': 'application/octet-stream',
  'a boundary that opens a quote': 'multipart/form-data; boundary="open',
};

const odd = {
  'a part without a name': [named('filename="a"'), scan],
  'a part without a header': [part('', 'x'), scan],
  'a part that is no form data': [part('Content-Disposition: attachment; name="inputs"'), scan],
  'a part without a disposition': [part('Content-Type: text/plain'), scan],
  'a field named __proto__': [fieldPart('__proto__', '{"a":1}'), fieldPart('constructor', '1'), scan],
  'fields named after methods': [fieldPart('toString', '1'), fieldPart('hasOwnProperty', '1'), scan],
  'a field with brackets': [fieldPart('inputs[__proto__][x]', '1'), fieldPart('a.b.c', '1'), scan],
  'a file field without a file name': [fieldPart('inputs', 'no file')],
  "a name as filename*=UTF-8''": [named('name="inputs"; filename*=UTF-8\'\'%2e%2e%2f%E2%82%AC.nii')],
  'a name in an unknown set': [named('name="inputs"; filename*=klingon\'\'%FF.nii; filename="a.nii"')],
  'a broken filename*': [named('name="inputs"; filename*=%%%'), scan],
  'a file name that opens a quote': [named('name="inputs"; filename="open'), scan],
  'a file name with a NUL': [named('name="inputs"; filename="a\0b.nii"')],
  'base64 as transfer encoding': [
    part(
      'Content-Disposition: form-data; name="inputs"; filename="a.nii"\r\nContent-Transfer-Encoding: base64',
      'eA==',
    ),
  ],
  'a form inside of a form': [
    part(
      `Content-Disposition: form-data; name="inputs"\r\nContent-Type: multipart/mixed; boundary=inner`,
      valid,
    ),
    scan,
  ],
  'parts that say how long they are': [sizedPart(fieldPart('tta', '1')), sizedPart(scan)],
  ...Object.fromEntries(
    [0, 1, 5, 7, 60, 2 ** 40, '9'.repeat(15), '9'.repeat(400), '-1', '6 bytes', ''].map((size) => [
      `a file that says it has ${String(size).slice(0, 20)} bytes`,
      [sizedPart(scan, size), scan],
    ]),
  ),
  'ten thousand parts of one name': [...Array(10_000).fill(fieldPart('tta', '1')), scan],
};

function* oneByOne(bytes) {
  for (let at = 0; at < bytes.length; at += 1) yield bytes.subarray(at, at + 1);
}

function* byteChunks() {
  yield requestHead('POST', path, [`Content-Type: ${multipartType}`, 'Transfer-Encoding: chunked']);
  for (const byte of oneByOne(valid)) yield chunk(byte);
  yield Buffer.from('0\r\n\r\n');
}

const framings = {
  'a body of one byte at a time': { pieces: () => oneByOne(Buffer.concat(whole(valid))), expected: [200] },
  'chunks of one byte': { pieces: byteChunks, expected: [200] },
  'a compressed body': {
    pieces: () => whole(gzipSync(valid), multipartType, ['Content-Encoding: gzip']),
    expected: either,
  },
  'an unknown encoding': {
    pieces: () => whole(valid, multipartType, ['Content-Encoding: zstd, br']),
    expected: either,
  },
  'both a length and chunks': {
    pieces: () => whole(valid, multipartType, ['Transfer-Encoding: chunked']),
    expected: refused,
  },
  'an unknown transfer encoding': {
    pieces: () => [
      requestHead('POST', path, [`Content-Type: ${multipartType}`, 'Transfer-Encoding: gzip, chunked']),
    ],
    expected: refused,
  },
  'two lengths': { pieces: () => whole(valid, multipartType, ['Content-Length: 7']), expected: refused },
  'a chunk of a negative length': {
    pieces: () => [
      requestHead('POST', path, [`Content-Type: ${multipartType}`, 'Transfer-Encoding: chunked']),
      Buffer.from('-1\r\nx\r\n'),
    ],
    expected: refused,
  },
};

/** Small requests of every odd shape; each must get one of the expected answers, and leave nothing. */
export function forms(random) {
  const cutAt = (pieces) => pieces.reduce((sum, each) => sum + each.length, 0);
  const fromPieces = (what, pieces, expected = either) => ({
    what: `A request with ${what}`,
    pieces: () => pieces,
    expected,
    // Some of them are also cut, at a place that the seed chooses.
    size: random.chance(0.5) ? cutAt(pieces) : 0,
  });
  return [
    ...Object.entries(types).map(([what, type]) => fromPieces(what, whole(valid, type))),
    ...Object.entries(odd).map(([what, parts]) => fromPieces(what, whole(multipart(parts)))),
    ...Object.entries(framings).map(([what, given]) => ({ what: `A request with ${what}`, ...given })),
  ];
}
