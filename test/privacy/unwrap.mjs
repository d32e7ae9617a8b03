import { constants, gunzipSync, inflateRawSync, inflateSync } from 'node:zlib';
import { unzip } from '../support/unzip.mjs';

const headEnd = '\r\n\r\n';

/** The requests of a connection, each as its head and its body. The last may be broken off. */
export function* requestsIn(bytes) {
  let at = 0;
  while (at < bytes.length) {
    const end = bytes.indexOf(headEnd, at);
    if (end < 0) return yield { head: bytes.toString('latin1', at), body: Buffer.alloc(0) };
    const head = bytes.toString('latin1', at, end);
    const length = Number(/^content-length: (\d+)$/im.exec(head)?.[1] ?? 0);
    if (/^transfer-encoding:/im.test(head))
      throw new Error(`A body without a length is not read here: ${head}`);
    const from = end + headEnd.length;
    yield { head, body: bytes.subarray(from, from + length) };
    at = from + length;
  }
}

/** The parts of a form: their heads, the names of their files, and their bytes. */
export function* partsOf({ head, body }) {
  const boundary = /^content-type: multipart\/form-data; boundary=(\S+)$/im.exec(head)?.[1];
  if (boundary === undefined) return;
  const mark = Buffer.from(`--${boundary}`);
  for (let at = body.indexOf(mark); at >= 0; ) {
    const next = body.indexOf(mark, at + mark.length);
    const part = body.subarray(at + mark.length + 2, next < 0 ? body.length : next - 2);
    const end = part.indexOf(headEnd);
    if (end >= 0) {
      const name = /filename="([^"]*)"/.exec(part.toString('utf8', 0, end))?.[1] ?? null;
      yield { name, bytes: part.subarray(end + headEnd.length), isWhole: next >= 0 };
    }
    at = next;
  }
}

// What is cut off is unpacked as far as it goes.
const asFarAsItGoes = { finishFlush: constants.Z_SYNC_FLUSH, maxOutputLength: 1 << 29 };

const packings = [
  [Buffer.from([0x1f, 0x8b, 0x08]), gunzipSync],
  ...[0x01, 0x5e, 0x9c, 0xda].map((level) => [Buffer.from([0x78, level]), inflateSync]),
];

function* placesOf(bytes, mark) {
  for (let at = bytes.indexOf(mark); at >= 0; at = bytes.indexOf(mark, at + 1)) yield at;
}

const deflated = '1.2.840.10008.1.2.1.99';

/** Where the data set of a deflated DICOM file begins; null in other files. */
function deflatedFrom(bytes) {
  const isDicom = bytes.toString('latin1', 128, 132) === 'DICM' && bytes.length > 144;
  if (!isDicom || !bytes.subarray(0, 1024).includes(deflated)) return null;
  return 144 + bytes.readUInt32LE(140);
}

/** All that is packed in bytes, wherever it begins. */
function* packedIn(bytes) {
  const from = deflatedFrom(bytes);
  if (from !== null) yield inflateRawSync(bytes.subarray(from), asFarAsItGoes);
  for (const [mark, unpack] of packings)
    for (const at of placesOf(bytes, mark)) {
      try {
        const unpacked = unpack(bytes.subarray(at), asFarAsItGoes);
        if (unpacked.length > 8) yield unpacked;
      } catch {
        // Bytes of voxels that look like a beginning.
      }
    }
}

/** The files of an archive that is broken off, which has no list of them. */
function* entriesOf(bytes) {
  for (const at of placesOf(bytes, zipStart)) {
    try {
      const from = at + 30 + bytes.readUInt16LE(at + 26) + bytes.readUInt16LE(at + 28);
      const isPacked = bytes.readUInt16LE(at + 8) === 8;
      if (isPacked) yield inflateRawSync(bytes.subarray(from), asFarAsItGoes);
    } catch {
      // An entry of which not even the head is there, or bytes that look like one.
    }
  }
}

const zipStart = Buffer.from('PK\x03\x04');

/** The bytes of an upload in a request, under the name that its content has: of a DICOM series, which is an archive, with its ending. */
function* uploadIn({ head, body }) {
  const [, target] = /^(?:POST|PATCH) \S*\/uploads(\S*) HTTP/.exec(head) ?? [];
  if (target === undefined || body.length === 0) return;
  const stated = Number(/^content-length: (\d+)$/im.exec(head)?.[1] ?? 0);
  const offset = Number(/^upload-offset: (\d+)$/im.exec(head)?.[1] ?? 0);
  const ending = body.subarray(0, zipStart.length).equals(zipStart) ? '.zip' : '';
  yield { name: `upload${target}${ending}`, bytes: body, isWhole: offset === 0 && body.length === stated };
}

/** The files in what was sent over a connection, those of archives one by one, and whether each is there to its end. */
export function* filesIn(connection) {
  for (const request of requestsIn(connection))
    for (const part of [...partsOf(request), ...uploadIn(request)]) {
      if (part.name === null) continue;
      if (!part.name.endsWith('.zip')) yield part;
      else if (part.isWhole)
        for (const [name, bytes] of unzip(part.bytes))
          yield { name: `${part.name}/${name}`, bytes, isWhole: true };
      else for (const bytes of entriesOf(part.bytes)) yield { name: part.name, bytes, isWhole: false };
    }
}

function* unpackedOf(bytes, depth = 0) {
  if (depth === 3) return;
  for (const unpacked of packedIn(bytes)) {
    yield unpacked;
    yield* unpackedOf(unpacked, depth + 1);
  }
}

/** What was sent over a connection as it is, its files, and all that is packed in them. */
export function* layersOf(connection) {
  yield connection;
  for (const { bytes } of filesIn(connection)) {
    yield bytes;
    yield* unpackedOf(bytes);
  }
}
