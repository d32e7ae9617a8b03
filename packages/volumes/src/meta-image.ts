import path from 'node:path';
import { metaTypeOf, parseMetaHeader } from './headers/text-headers.js';
import { besideHeader, type StoredVolume, storedVolume, type VoxelsOfHeader } from './stored-voxels.js';
import { headerWithoutEnd, VolumeError } from './volume.js';

const isTrue = (text: string | undefined): boolean => /^t/i.test(text ?? '');

/**
 * Opens a volume of MetaImage with its header in a separate file or before the voxels.
 * @param start the first bytes of the file, with the whole header
 * @throws VolumeError
 */
export async function openMetaImage(file: string, start: Buffer): Promise<StoredVolume> {
  const name = path.basename(file);
  const header = parseMetaHeader(start);
  if (!header) throw headerWithoutEnd(name, ' (ElementDataFile)');
  const { fields, end } = header;
  const field = (...names: readonly string[]) => names.map((each) => fields.get(each)).find(Boolean);
  const numbers = (...names: readonly string[]) =>
    field(...names)
      ?.split(/\s+/)
      .map(Number);
  const dimensions = numbers('DimSize') ?? [];
  const [ni = 1, nj = 1, nk = 1, ...more] = dimensions;
  const type = metaTypeOf(field('ElementType'));
  if (!type)
    throw new VolumeError(
      `${name} holds values of the type ${field('ElementType') ?? 'unknown'}, which is not read: write them as MET_SHORT or MET_FLOAT.`,
    );
  if (/^f/i.test(field('BinaryData') ?? ''))
    throw new VolumeError(
      `${name} holds its voxels as text, which is not read: write it again as binary data.`,
    );
  const channels = Number(field('ElementNumberOfChannels') ?? 1);
  const isColour = type === 'uint8' && (channels === 3 || channels === 4);
  const isLocal = header.dataFiles === null;
  const headerSize = Number(field('HeaderSize') ?? 0);
  const isPacked = isTrue(field('CompressedData'));
  const dataFiles = header.dataFiles === null ? [file] : besideHeader(file, header.dataFiles);
  const volumes = more.reduce((product, count) => product * count, 1);
  const stored: VoxelsOfHeader = {
    path: file,
    dataFiles: [...dataFiles] as [string, ...string[]],
    isPacked,
    packedFrom: isLocal ? end : 0,
    packedBytes: Number(field('CompressedDataSize')) || 0,
    // -1 means that the voxels are at the end of the file.
    start: headerSize === -1 ? null : (isLocal && !isPacked ? end : 0) + Math.max(0, headerSize),
    type,
    isBigEndian: isTrue(field('BinaryDataByteOrderMSB', 'ElementByteOrderMSB')),
    size: [ni, nj, nk],
    components: isColour ? (channels as 3 | 4) : 1,
    frames: volumes * (isColour ? 1 : channels),
    isInterleaved: !isColour && channels > 1,
  };
  if (volumes > 1 && stored.isInterleaved)
    throw new VolumeError(`${name} holds ${volumes} volumes of ${channels} channels: split it into volumes.`);
  const modality = modalityOf(field('Modality'));
  const directions = numbers('TransformMatrix', 'Rotation', 'Orientation');
  const spacing = numbers('ElementSpacing', 'ElementSize') ?? [];
  const offset = numbers('Offset', 'Position', 'Origin') ?? [];
  return storedVolume(stored, affineOf(dimensions.length, directions, spacing, offset), {
    format: 'MetaImage',
    hasOrientation: directions !== undefined && dimensions.length >= 3,
    modality,
    ...(!isColour && channels > 1 && { hasVectors: true }),
    unit: modality === 'CT' ? 'HU' : null,
  });
}

/** Converts `MET_MOD_CT` to the DICOM modality. */
const modalityOf = (text: string | undefined): string | null => {
  const modality = text?.replace(/^MET_MOD_/, '');
  return modality === 'CT' || modality === 'MR' ? modality : null;
};

/** The affine for a direction matrix that lists the axes one after another, in LPS+. */
function affineOf(
  dimensions: number,
  directions: readonly number[] | undefined,
  spacing: readonly number[],
  offset: readonly number[],
): number[][] {
  return [0, 1, 2].map((row) => {
    const sign = row < 2 ? -1 : 1;
    const steps = [0, 1, 2].map((axis) => {
      const isGiven = directions && axis < dimensions && row < dimensions;
      const direction = isGiven ? (directions[axis * dimensions + row] ?? Number.NaN) : axis === row ? 1 : 0;
      return sign * direction * (spacing[axis] ?? 1);
    });
    return [...steps, sign * (offset[row] ?? 0)];
  });
}
