/** Headers of volumes whose voxels are in other files. */

/** A header of MetaImage, with voxels of one byte. */
export const metaHeader = (data: string, voxels = 1): string =>
  `ObjectType = Image\nNDims = 3\nDimSize = ${voxels} 1 1\nElementType = MET_UCHAR\nElementDataFile = ${data}\n`;

/** A header of NRRD, with voxels of one byte. */
export const nrrdHeader = (data: string, voxels = 1): string =>
  `NRRD0004\n# a comment\ntype: uchar\ndimension: 3\nsizes: ${voxels} 1 1\nencoding: raw\n${data}\n\n`;

/** The header of a pair of ANALYZE or NIfTI-1 (348 bytes) or NIfTI-2 (540 bytes), with voxels of one byte. */
export function pairHeader(size = 348, voxels = 1): Buffer {
  const header = Buffer.alloc(size);
  header.writeInt32LE(size);
  const counts = [3, voxels, 1, 1];
  for (const [at, count] of counts.entries()) {
    if (size === 348) header.writeInt16LE(count, 40 + 2 * at);
    else header.writeBigInt64LE(BigInt(count), 16 + 8 * at);
  }
  header.writeInt16LE(8, size === 348 ? 72 : 14);
  return header;
}

/** A header of Philips, with one image of one byte. */
export const parHeader = [
  '# === DATA DESCRIPTION FILE =====',
  '.    Patient name                       :   nobody',
  '# === IMAGE INFORMATION =====',
  '  1   1    1  1 0 2     0  8    100   1   1     0.00000   1.00000',
  '',
].join('\n');

/** A header of AFNI, with one voxel of one byte. */
export const afniHeader = [
  ...['type = integer-attribute', 'name = DATASET_DIMENSIONS', 'count = 5', ' 1 1 1 0 0', ''],
  ...['type = integer-attribute', 'name = BRICK_TYPES', 'count = 1', ' 0', ''],
].join('\n');
