import path from 'node:path';
import { cross } from './headers/dicom-stack.js';
import { maxHeader, nrrdTypeOf, parseNrrdHeader } from './headers/text-headers.js';
import { withSegments } from './slicer-segments.js';
import { besideHeader, type StoredVolume, storedVolume, type VoxelsOfHeader } from './stored-voxels.js';
import { damaged, headerWithoutEnd, VolumeError, type VolumeFile } from './volume.js';

/** The signs that convert a space to RAS+. */
const spaces: readonly (readonly [RegExp, readonly [number, number, number]])[] = [
  [/^(right-anterior-superior|ras)(-time|t)?$/, [1, 1, 1]],
  [/^(left-anterior-superior|las)(-time|t)?$/, [-1, 1, 1]],
  [/^(left-posterior-superior|lps)(-time|t)?$/, [-1, -1, 1]],
];

/**
 * Opens a volume of NRRD with its header in a separate file or before the voxels.
 * @param start the first bytes of the file, with the whole header
 * @throws VolumeError
 */
export async function openNrrd(file: string, start: Buffer): Promise<StoredVolume | VolumeFile> {
  const name = path.basename(file);
  const { fields, pairs, end, dataFiles, isWhole } = parseNrrdHeader(start);
  if (!isWhole && (dataFiles === null || start.length >= maxHeader)) throw headerWithoutEnd(name);
  const field = (key: string) => fields.get(key);
  const type = nrrdTypeOf(field('type'));
  if (!type)
    throw new VolumeError(
      `${name} holds values of the type ${field('type') ?? 'unknown'}, which is not read.`,
    );
  const encoding = (field('encoding') ?? '').toLowerCase();
  const isPacked = ['gz', 'gzip'].includes(encoding);
  if (!isPacked && encoding !== 'raw')
    throw new VolumeError(`${name} is encoded as ${encoding || 'nothing'}: write it again as raw or gzip.`);
  if (Number(field('lineskip') ?? 0) > 0)
    throw new VolumeError(`${name} has lines of text before its voxels: write it again without them.`);

  const axes = axesOf(name, fields);
  const { size, kind, others, isFirst } = axes;
  const isColour = type === 'uint8' && isFirst && [3, 4].includes(others) && /color/.test(kind);
  const skip = Number(field('byteskip') ?? 0);
  const from = dataFiles === null ? end : 0;
  const stored: VoxelsOfHeader = {
    path: file,
    dataFiles: dataFiles ? besideHeader(file, dataFiles) : [file],
    isPacked,
    packedFrom: from,
    // -1 means that the voxels are at the end of the file.
    start: skip === -1 ? null : (isPacked ? 0 : from) + Math.max(0, skip),
    type,
    isBigEndian: field('endian')?.toLowerCase() === 'big',
    size,
    components: isColour ? (others as 3 | 4) : 1,
    frames: isColour ? 1 : others,
    isInterleaved: !isColour && isFirst && others > 1,
  };
  const unit = /^\W*(HU|Hounsfield)/i.test(field('sampleunits') ?? '') ? ('HU' as const) : null;
  const header = {
    ...{ format: 'NRRD', hasOrientation: axes.hasOrientation, unit },
    ...(others > 1 && !/^(time|list)?$/.test(kind) && { hasVectors: true }),
  } as const;
  const volume = await storedVolume(stored, axes.affine, header);
  return withSegments(volume, pairs ?? new Map());
}

interface Axes {
  readonly size: readonly [number, number, number];
  readonly affine: number[][];
  readonly hasOrientation: boolean;
  /** Length of the non-spatial axis; 1 if there is none. */
  readonly others: number;
  readonly kind: string;
  /** Whether that axis varies fastest. */
  readonly isFirst: boolean;
}

/** NRRD has at most 16 axes. */
const maxAxes = 16;

/** Kinds of non-spatial axes. */
const notOfSpace =
  /^(list|time|vector|covariant-vector|normal|point|scalar|complex|(\d|rgb|rgba|hsv|xyz)-.*)$/i;

/** Finds the three spatial axes, and at most one other. */
function axesOf(name: string, fields: ReadonlyMap<string, string>): Axes {
  const sizes = (fields.get('sizes') ?? '').split(/\s+/).map(Number);
  if (sizes.length > maxAxes) throw damaged(`${name} is damaged: its header says ${sizes.length} axes.`);
  const kinds = (fields.get('kinds') ?? '').split(/\s+/);
  const directions = [...(fields.get('spacedirections') ?? '').matchAll(/none|\(([^()]*)\)/gi)].map(
    ([, vector]) => (vector === undefined ? null : vector.split(',').map(Number)),
  );
  const isOfSpace = sizes.map((_, axis) =>
    directions.length > 0 ? Boolean(directions[axis]) : !notOfSpace.test(kinds[axis] ?? ''),
  );
  // Without kinds, the fourth axis is time.
  while (isOfSpace.filter(Boolean).length > 3) isOfSpace[isOfSpace.lastIndexOf(true)] = false;
  const spatial = sizes.flatMap((_, axis) => (isOfSpace[axis] ? [axis] : []));
  const rest = sizes.flatMap((_, axis) => (isOfSpace[axis] ? [] : [axis]));
  const [other] = rest;
  if (
    spatial.length === 0 ||
    rest.length > 1 ||
    (other !== undefined && other > 0 && other < sizes.length - 1)
  )
    throw new VolumeError(
      `${name} has axes that are not those of a volume (sizes ${sizes.join(' ')}, kinds ${kinds.join(' ') || 'not given'}): write it again with three axes of space, and at most one more.`,
    );
  const signs = spaces.find(([names]) => names.test((fields.get('space') ?? '').toLowerCase()))?.[1];
  // Without a space, the one of DICOM is assumed (LPS+).
  const [toRight, toFront, upwards] = signs ?? [-1, -1, 1];
  const origin =
    /\(([^()]*)\)/
      .exec(fields.get('spaceorigin') ?? '')?.[1]
      ?.split(',')
      .map(Number) ?? [];
  const spacings = (fields.get('spacings') ?? '').split(/\s+/).map(Number);
  const steps = spatial.map((axis, at) => {
    const spacing = spacings[axis] ?? 1;
    const length = Number.isFinite(spacing) && spacing > 0 ? spacing : 1;
    return directions[axis] ?? [0, 1, 2].map((row) => (row === at ? length : 0));
  });
  while (steps.length < 3) steps.push(steps.length === 2 ? across(steps) : [0, 1, 0]);
  const unit = /^\W*(um|µm|μm|micron)/i.test(fields.get('spaceunits') ?? '') ? 0.001 : 1;
  const affine = [toRight, toFront, upwards].map((sign, row) =>
    [...steps.map((step) => step[row] ?? 0), origin[row] ?? 0].map((value) => sign * unit * value),
  );
  const size = [0, 1, 2].map((at) => (spatial[at] === undefined ? 1 : (sizes[spatial[at]] ?? 1)));
  return {
    size: size as unknown as Axes['size'],
    affine,
    hasOrientation: signs !== undefined && spatial.length === 3 && directions.length > 0,
    others: other === undefined ? 1 : (sizes[other] ?? 1),
    kind: other === undefined ? '' : (kinds[other] ?? '').toLowerCase(),
    isFirst: other === 0,
  };
}

/** A step of 1 mm perpendicular to a plane. */
function across([a = [], b = []]: readonly (readonly number[])[]): number[] {
  const normal = cross(a, b);
  const length = Math.hypot(...normal);
  return normal.map((each) => each / length);
}
