import {
  boundary,
  fieldPart,
  filePart,
  multipart,
  multipartType,
  requestHead,
} from '../../../support/multipart.mjs';
import { chunk } from '../../support/pour.mjs';

const mebibyte = 2 ** 20;
const path = '/apps/witness/infer';
const type = `Content-Type: ${multipartType}`;
const chunkedHead = requestHead('POST', path, [type, 'Transfer-Encoding: chunked']);
const form = multipart([filePart('inputs', 'scan.nii')]);
const opening = form.subarray(0, -`--${boundary}--\r\n`.length);

/** A mebibyte that repeats one text. */
const block = (text) => Buffer.from(text.repeat(Math.ceil(mebibyte / text.length)).slice(0, mebibyte));

/** A body in chunks: a beginning, then this many mebibytes of a text, then an end. */
function* inChunks(before, text, mebibytes, after) {
  yield chunkedHead;
  if (before.length > 0) yield chunk(Buffer.from(before));
  const framed = mebibytes > 0 ? chunk(block(text)) : null;
  for (let count = 0; count < mebibytes; count += 1) yield framed;
  if (after.length > 0) yield chunk(Buffer.from(after));
  yield Buffer.from('0\r\n\r\n');
}

/** The same with a stated length. */
function* withLength(before, text, mebibytes, after) {
  const length = before.length + mebibytes * mebibyte + after.length;
  yield requestHead('POST', path, [type, `Content-Length: ${length}`]);
  yield Buffer.from(before);
  const piece = block(text);
  for (let count = 0; count < mebibytes; count += 1) yield piece;
  yield Buffer.from(after);
}

const start = `--${boundary}\r\n`;
const disposition = 'Content-Disposition: form-data; name="inputs"; filename="scan.nii"';
const rest = `\r\n\r\nvoxels\r\n--${boundary}--\r\n`;

/** The parts of a form that can be huge: the text before, the repeated text, the text after. */
const hugeHeaders = {
  'a part header of {} MB': [`${start}${disposition}\r\nX-Header: `, 'v', rest],
  'a file name of {} MB': [
    `${start}Content-Disposition: form-data; name="inputs"; filename="`,
    'n',
    `"${rest}`,
  ],
  'a field name of {} MB': [`${start}Content-Disposition: form-data; name="`, 'n', `"${rest}`],
  'a header name of {} MB': [`${start}${disposition}\r\nX-`, 'h', `: value${rest}`],
  '{} MB of short part headers': [`${start}${disposition}\r\n`, 'X-A: b\r\n', `X-B: c${rest}`],
  'a folded part header of {} MB': [`${start}${disposition}\r\nX-Header: `, 'v\r\n ', rest],
  '{} MB of line ends in a part header': [`${start}${disposition}\r\n X:`, '\r', rest],
};

/** A request whose chunks have long extensions and one byte each. */
function* extendedChunks(mebibytes) {
  yield chunkedHead;
  const one = Buffer.from(`1;${'e'.repeat(8000)}\r\nx\r\n`);
  const many = Buffer.concat(Array(128).fill(one));
  for (let count = 0; count < mebibytes; count += 1) yield many;
  yield Buffer.from('0\r\n\r\n');
}

/** One chunk whose extension never ends. */
function* endlessExtension(mebibytes) {
  yield chunkedHead;
  yield Buffer.from('5;');
  for (let count = 0; count < mebibytes; count += 1) yield block('e');
}

const kilobytes = (text) => text.length;

/** Requests of many megabytes: for a server that takes 64 MiB (`wide`), and for one that takes 8 MiB (`narrow`). */
export function floods(random) {
  const refused = [400, 408, 411, 413, 415, 422, 431, 0];
  const headers = Object.entries(hugeHeaders).flatMap(([name, given]) => {
    const most = random.integer(200, 600);
    const size = Math.round(most) * mebibyte;
    const named = (count) => name.replace('{}', String(count));
    return [
      {
        what: `${named(most)}, in chunks,`,
        pieces: () => inChunks(...insert(given, most)),
        expected: refused,
        size,
      },
      {
        what: `${named(60)}, of a stated length,`,
        pieces: () => withLength(...insert(given, 60)),
        expected: refused,
      },
    ];
  });
  const first = {
    what: 'A part header of 520 MB, in chunks,',
    pieces: () => inChunks(...insert(hugeHeaders['a part header of {} MB'], 520)),
    expected: refused,
  };
  const tail = [form, 't', ''];
  const narrow = [
    {
      what: '100 MB behind the last boundary',
      pieces: () => inChunks(...insert(tail, 100)),
      expected: refused,
    },
    {
      what: '100 MB before the first boundary',
      pieces: () => inChunks('', 'p', 100, `\r\n${form}`),
      expected: refused,
    },
    { what: 'Chunks with long extensions', pieces: () => extendedChunks(100), expected: refused },
    { what: 'A chunk extension without an end', pieces: () => endlessExtension(100), expected: refused },
    {
      what: '100 MB of empty parts',
      pieces: () =>
        inChunks(opening, `${start}Content-Disposition: form-data; name="a"\r\n\r\n\r\n`, 100, ''),
      expected: refused,
    },
    {
      what: '100,000 fields',
      pieces: () =>
        inChunks(multipart(Array(100_000).fill(fieldPart('mine', '1')), { close: '' }), '', 0, form),
      expected: [200, ...refused],
      size: kilobytes(form),
    },
  ];
  return { wide: [first, ...headers], narrow };
}

/** The arguments of a body: before, text, mebibytes, after. */
function insert([before, text, after], mebibytes) {
  return [before, text, mebibytes, after];
}
