import { constants, gunzipSync, inflateRawSync, inflateSync } from 'node:zlib';
import { unzip } from '../support/unzip.mjs';
import { isArchive, sentFiles, zipStart } from '../support/wire.mjs';

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

/**
 * The files in what was sent over connections, those of archives one by one, and whether each is there to its end.
 * @param {readonly Buffer[]} connections
 */
export function* filesIn(connections) {
  for (const file of sentFiles(connections)) {
    const { name, bytes, isWhole } = file;
    if (!isArchive(bytes)) yield file;
    else if (isWhole)
      for (const [entry, content] of unzip(bytes))
        yield { name: `${name}/${entry}`, bytes: content, isWhole };
    else for (const content of entriesOf(bytes)) yield { name, bytes: content, isWhole };
  }
}

function* unpackedOf(bytes, depth = 0) {
  if (depth === 3) return;
  for (const unpacked of packedIn(bytes)) {
    yield unpacked;
    yield* unpackedOf(unpacked, depth + 1);
  }
}

/** What was sent over connections as it is, the files, and all that is packed in them. */
export function* layersOf(connections) {
  yield* connections;
  for (const { bytes } of filesIn(connections)) {
    yield bytes;
    yield* unpackedOf(bytes);
  }
}
