import { notUnderstood, type VolumeStart } from './volume-start.js';

/** Bytes of a header, and of its meaningful part: sizes, type and geometry. The rest is unused. */
const [headerBytes, knownBytes] = [284, 90];

/** Bytes of one value, by the code of its type. */
const valueBytes: Readonly<Record<number, number>> = { 0: 1, 1: 4, 3: 4, 4: 2, 10: 2 };

/** Number of acquisition parameters after the voxels: TR, flip angle, TE, TI and field of view. */
const parameters = 5;

/** The acquisition parameters that the file contains, rounded so that bytes with another meaning do not survive unchanged. */
function parametersIn(bytes: Buffer): Buffer {
  const written = Buffer.alloc(4 * Math.floor(bytes.length / 4));
  for (let at = 0; at < written.length; at += 4) {
    const value = bytes.readFloatBE(at);
    // The flip angle is in radians, the others in milliseconds and millimetres.
    const [max, steps] = at === 4 ? [7, 1e6] : [1e6, 1e3];
    if (value >= 0 && value < max) written.writeFloatBE(Math.round(value * steps) / steps, at);
  }
  return written;
}

/**
 * Rewrites the header of MGH or MGZ. After the voxels, only acquisition parameters are kept: tags with the commands that made the
 * file and the paths of other files are removed.
 * @param start the first bytes of the file, unpacked
 */
export function freeSurferStart(file: string, start: Buffer): VolumeStart {
  const header = Buffer.alloc(headerBytes);
  start.copy(header, 0, 0, knownBytes);
  const counts = [4, 8, 12, 16].map((at) => start.readInt32BE(at));
  const voxels = counts.reduce((all, count) => all * count, valueBytes[start.readInt32BE(20)] ?? 0);
  if (!Number.isSafeInteger(voxels) || voxels <= 0) throw notUnderstood(file, 'its header has no sizes');
  const isFilled = start.subarray(knownBytes, headerBytes).some((byte) => byte !== 0);
  return {
    kept: ['sizes', 'type', 'geometry', 'acquisition parameters'],
    removed: isFilled ? ['unused bytes of the header'] : [],
    dataFiles: null,
    from: 0,
    before: headerBytes,
    voxels,
    behind: { bytes: 4 * parameters, encode: parametersIn },
    packing: null,
    encode: () => header,
  };
}
