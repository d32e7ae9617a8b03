import path from 'node:path';
import {
  arrayLike,
  isSameGeometry,
  nearestOnGrid,
  readVolume,
  type Slice,
  shearOf,
  spacingOf,
  VolumeError,
  type VolumeFile,
  type Voxels,
  voxelVolumeOf,
} from '@remote-app/volumes';
import { counted } from '../../contract/index.js';
import type { Terminology } from '../matching/index.js';
import { type Counts, chooseSlices, colourOf, countLabels, readColour, toIndices } from './labels.js';
import { pausing } from './pausing.js';
import type { CaseView, DrawnLabel, PlaneView, SliceView } from './picture.js';
import { brightnessOf, cut, labelsOf, pixelsOf, type SliceSource } from './planar.js';
import { orientationOf, type Plane, positionOf } from './planes.js';
import { softTissue, windowOf } from './window.js';

/** The volumes of a picture. */
export interface CaseVolumes {
  readonly name: string;
  readonly scan: VolumeFile | null;
  readonly mask: VolumeFile | null;
  readonly terminology: Terminology;
  /** Unit of the scan's values, as the app names it; null if it does not. */
  readonly unit: string | null;
}

export interface ViewOptions {
  /** Number of slices read for each plane. */
  readonly slices: number;
  /**
   * Maximum number of pixels along the longest side of the volume. A pixel is never smaller than the shortest side of a voxel.
   */
  readonly maxPixels: number;
  /** Which volume of a file with several is shown, counted from 0. */
  readonly frame: number;
  /** Ends the reading. */
  readonly signal: AbortSignal;
}

/** Deviation of the axes from perpendicular, in degrees, above which a picture shows it. */
const maxShear = 2;

/** Maximum number of labels that are drawn: the largest ones. */
const maxLabels = 255;

/**
 * Reads what is shown of a case: a scan, its segmentation, or both. Memory depends on the slices shown, not on the volumes,
 * unless a segmentation is on another grid than its scan.
 * @throws VolumeError for a volume that cannot be read, and for a segmentation without labels
 */
export async function viewCase(volumes: CaseVolumes, options: ViewOptions): Promise<CaseView> {
  const { scan, mask } = volumes;
  const shown = scan ?? mask;
  if (!shown) throw new VolumeError(`${volumes.name} has neither a scan nor a segmentation.`);
  const { frame } = options;
  const frameOf = (file: VolumeFile) => Math.min(frame, file.frames - 1);
  const notes = [
    ...framesNote(scan, frameOf),
    ...framesNote(mask, frameOf),
    ...(scan === null ? ['No scan was found for it'] : []),
  ];

  if (!shown.hasOrientation)
    notes.push(`${nameOf(shown)} does not say which way its axes point: left and right may be swapped`);
  for (const file of [scan, mask])
    if (file?.hasContradictorySides)
      notes.push(
        `The sform and the qform of ${nameOf(file)} contradict each other in left and right: it is drawn by its sform, and programs that read the qform show it mirrored`,
      );
  const orientation = orientationOf(shown);
  const shear = shearOf(shown);
  if (shear > maxShear)
    notes.push(
      `Slices of ${nameOf(shown)} are tilted by ${Math.round(shear)} degrees against each other: the planes across them are drawn as if they were straight`,
    );
  else if (orientation.angle !== null)
    notes.push(`Oblique by ${Math.round(orientation.angle)} degrees: drawn along its own axes`);
  const drawn =
    mask && (await drawnMask(mask, scan, { frame: frameOf(mask), signal: options.signal }, notes));
  const labels = drawn ? shownLabels(drawn.counts, mask, volumes.terminology, notes) : [];

  const spacing = spacingOf(shown);
  const extents = shown.size.map((count, axis) => count * (spacing[axis] ?? 0));
  const pixel = Math.max(Math.min(...spacing), Math.max(...extents) / options.maxPixels);
  const choices = orientation.planes.map((plane) => {
    // A plane through a single slice of the volume would be a line.
    const isFlat = plane.across.count === 1 || plane.down.count === 1;
    if (isFlat && shown.size.some((count) => count > 1)) return { indices: [], best: 0 };
    // Slices are chosen in display order, so that the choice does not depend on how the array is stored.
    const { of, count, isReversed } = plane.through;
    const weights = drawn?.weights[of] ?? null;
    const { indices, best } = chooseSlices(
      count,
      options.slices,
      isReversed && weights ? weights.toReversed() : weights,
    );
    return { indices: indices.map((index) => (isReversed ? count - 1 - index : index)), best };
  });
  const wanted: [number[], number[], number[]] = [[], [], []];
  orientation.planes.forEach(({ through }, at) => {
    wanted[through.of].push(...(choices[at]?.indices ?? []));
  });
  const [scanCuts, maskCuts] = await Promise.all([
    scan && cut(scan, wanted, frameOf(scan), options.signal),
    drawn && mask && cut(drawn.source, wanted, frameOf(mask), options.signal),
  ]);

  const chosen = scan && scanCuts && scan.components === 1 ? windowOf(scan, scanCuts, volumes.unit) : null;
  const window = chosen?.window ?? null;
  if (scan && chosen?.isGuess)
    notes.push(
      `${nameOf(scan)} is drawn as CT, which is a guess: it names no modality, and contains air near -1000`,
    );
  const indexOf = new Map(labels.map(({ value, index }) => [value, index]));
  const slicesOf = (plane: Plane, indices: readonly number[]): SliceView[] => {
    const raster = { across: plane.across, down: plane.down, pixel };
    const [width, height] = [pixelsOf(plane.across, pixel), pixelsOf(plane.down, pixel)];
    return indices.map((index) => {
      const values = scanCuts?.[plane.through.of].get(index);
      const marked = maskCuts?.[plane.through.of].get(index);
      const sliceLabels = marked ? labelsOf(toIndices(marked, indexOf), raster) : null;
      const isColour = scan !== null && scan.components > 1;
      return {
        position: positionOf(shown, plane, index),
        width,
        height,
        pixels: values
          ? isColour
            ? brightnessOf(withoutAlpha(values, scan.components), raster, 3)
            : brightnessOf(windowed(values, window ?? softTissue), raster, 1)
          : new Uint8Array(width * height),
        isColour,
        labels: sliceLabels,
      };
    });
  };
  const planes = orientation.planes.map((plane, at): PlaneView => {
    const { indices, best } = choices[at] ?? { indices: [], best: 0 };
    return { name: plane.name, marks: plane.marks, slices: slicesOf(plane, indices), best };
  });
  return {
    name: volumes.name,
    pixel,
    planes: planes as unknown as CaseView['planes'],
    labels,
    window,
    notes,
  };
}

const nameOf = (file: VolumeFile): string => path.basename(file.path);

function framesNote(file: VolumeFile | null, frameOf: (file: VolumeFile) => number): string[] {
  if (!file || file.frames === 1) return [];
  return [`${nameOf(file)} holds ${file.frames} volumes: number ${frameOf(file) + 1} is shown`];
}

interface DrawnMask {
  /** Labels on the grid of the volume that is drawn. */
  readonly source: SliceSource;
  readonly weights: Counts['weights'];
  /** Voxel counts on the grid of the segmentation itself. */
  readonly counts: Counts['values'];
}

interface Reading {
  readonly frame: number;
  readonly signal: AbortSignal;
}

/** Counts the labels of a segmentation, and resamples it to the grid of its scan if it has another one. */
async function drawnMask(
  mask: VolumeFile,
  scan: VolumeFile | null,
  { frame, signal }: Reading,
  notes: string[],
): Promise<DrawnMask> {
  const layered = mask.layers ? flattening(mask, mask.layers()) : null;
  const counts = await countLabels(pausing(layered?.slices ?? mask.slices({ frame }), signal), mask);
  if (!counts || mask.components > 1)
    throw new VolumeError(
      `${nameOf(mask)} holds no labels but ${mask.components > 1 ? 'colours' : 'a range of values'}: give it without the scan to look at it.`,
    );
  if (counts.isScaled)
    notes.push(`The labels of ${nameOf(mask)} are stored as fractions: they are read as whole numbers`);
  const shared = layered?.shared() ?? 0;
  if (shared > 0)
    notes.push(
      `Segments of ${nameOf(mask)} overlap in ${counted(shared, 'voxel')}: volumes count each of them whole, and the last one is drawn`,
    );
  if (!scan || isSameGeometry(scan, mask))
    return { source: layered?.source() ?? mask, weights: counts.weights, counts: counts.values };
  notes.push(
    `${nameOf(mask)} has another grid (${mask.size.join(' x ')}) than ${nameOf(scan)} (${scan.size.join(' x ')}): drawn where it lies in space`,
  );
  const data = layered?.data() ?? (await readVolume(mask, { frame })).data;
  const source: SliceSource = {
    ...{ size: scan.size, components: 1 },
    slices: ({ only } = {}) => nearestOnGrid(mask, data, scan, only),
  };
  const placed = await countLabels(pausing(source.slices(), signal), scan);
  if (counts.values.length > 0 && placed?.values.length === 0)
    notes.push(`No label of ${nameOf(mask)} lies within ${nameOf(scan)}: do they belong together?`);
  return { source, weights: placed?.weights ?? counts.weights, counts: counts.values };
}

/** Collects the layers of a segmentation in memory as they are read, so that files with many segments are read only once. */
function flattening(mask: VolumeFile, layers: AsyncIterable<Slice>) {
  const [ni, nj, nk] = mask.size;
  const inSlice = ni * nj;
  let data: Voxels = new Uint8Array(0);
  let shared = 0;
  const make = (like: Voxels): Voxels => {
    try {
      return arrayLike(like, inSlice * nk);
    } catch {
      throw new VolumeError(`${nameOf(mask)} is too large to be shown (${mask.size.join(' x ')} voxels).`);
    }
  };
  return {
    slices: (async function* () {
      for await (const slice of layers) {
        const { k, values } = slice;
        if (data.length === 0) data = make(values);
        for (let at = 0, to = k * inSlice; at < inSlice; at += 1, to += 1) {
          const value = values[at] as number;
          if (value === 0) continue;
          if (data[to] !== 0) shared += 1;
          data[to] = value;
        }
        yield slice;
      }
    })(),
    shared: () => shared,
    data: () => (data.length > 0 ? data : make(data)),
    source(): SliceSource {
      const whole = this.data();
      return {
        size: mask.size,
        components: 1,
        async *slices({ only } = {}) {
          for (const k of only ?? Array.from({ length: nk }, (_, at) => at))
            yield { k, values: whole.subarray(k * inSlice, (k + 1) * inSlice) };
        },
      };
    },
  };
}

/** The labels that are drawn, with their names and colours. */
function shownLabels(
  counts: Counts['values'],
  mask: VolumeFile,
  terminology: Terminology,
  notes: string[],
): DrawnLabel[] {
  const millilitres = voxelVolumeOf(mask);
  const regions = Object.entries(terminology).flatMap(([key, { values }]) => {
    const voxels = (values ?? []).map((value) => counts.find((each) => each.value === value)?.voxels ?? 0);
    const sum = voxels.reduce((all, each) => all + each, 0);
    return sum > 0 ? [{ value: Number(key), voxels: sum }] : [];
  });
  const regionOf = new Map(regions.map((each) => [each.value, each]));
  const counted = [...counts.filter(({ value }) => !regionOf.has(value)), ...regions];
  if (regions.length > 0)
    notes.push(`Labels of ${nameOf(mask)} are regions that overlap: volumes count each of them whole`);
  if (counts.length === 0) notes.push(`${nameOf(mask)} is empty: no voxel has a label`);
  if (counted.length > maxLabels)
    notes.push(`${nameOf(mask)} has ${counted.length} labels: the ${maxLabels} largest are shown`);
  const largest = counted
    .toSorted((a, b) => b.voxels - a.voxels)
    .slice(0, maxLabels)
    .sort((a, b) => a.value - b.value);
  return largest.map(({ value, voxels }, at) => {
    const known = terminology[String(value)];
    const own = mask.labels?.find((each) => each.value === value);
    return {
      index: at + 1,
      value,
      name: known?.name ?? own?.name ?? `label ${value}`,
      colour: readColour(known?.color ?? own?.colour ?? '') ?? colourOf(at + 1),
      voxels,
      millilitres: voxels * millilitres,
    };
  });
}

/** Values as brightness from 0 to 255; black for NaN. */
function windowed(
  values: Voxels,
  { low, high, isInverted = false }: Pick<NonNullable<CaseView['window']>, 'low' | 'high' | 'isInverted'>,
): Uint8Array {
  const pixels = new Uint8Array(values.length);
  const scale = 255 / (high - low);
  for (let at = 0; at < values.length; at += 1) {
    const value = values[at] as number;
    const brightness = (isInverted ? high - value : value - low) * scale;
    pixels[at] = brightness >= 255 ? 255 : brightness > 0 ? brightness + 0.5 : 0;
  }
  return pixels;
}

/** Red, green and blue of each voxel. */
function withoutAlpha(values: Voxels, components: number): Uint8Array {
  if (components === 3) return Uint8Array.from(values);
  return Uint8Array.from(values.filter((_, at) => at % 4 !== 3));
}
