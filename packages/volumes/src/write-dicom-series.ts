import { createHash } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import {
  decimals,
  derivedObject,
  derivedUid,
  positionOf,
  referencedSeries,
  sourceImages,
  spacingBetween,
} from './derived-object.js';
import { type DicomElement, decimalString, encodeElements, fileStart } from './dicom-write.js';
import { slicesOnGrid } from './onto-grid.js';
import type { Maker, SourceSeries, WrittenObject } from './segments.js';
import { VolumeError, type VolumeFile } from './volume.js';
import { writeWhole } from './write.js';

/** The SOP classes of a derived series, and the other attributes that they require. */
const kinds: Readonly<
  Record<string, { readonly sopClass: string; readonly demanded: readonly DicomElement[] }>
> = {
  CT: {
    sopClass: '1.2.840.10008.5.1.4.1.1.2',
    demanded: [
      ['00080008', 'CS', ['DERIVED', 'SECONDARY', 'AXIAL']],
      ['00180060', 'DS', ''],
      ['00200012', 'IS', ''],
      ['00281054', 'LO', 'HU'],
    ],
  },
  MR: {
    sopClass: '1.2.840.10008.5.1.4.1.1.4',
    demanded: [
      ['00080008', 'CS', ['DERIVED', 'SECONDARY', 'OTHER']],
      ['00180020', 'CS', 'RM'],
      ['00180021', 'CS', 'NONE'],
      ['00180022', 'CS', ''],
      ['00180023', 'CS', ''],
      ['00180081', 'DS', ''],
      ['00180091', 'IS', ''],
    ],
  },
};

/** value = stored x slope + intercept, and the range of the values. */
interface Scale {
  readonly slope: number;
  readonly intercept: number;
  readonly min: number;
  readonly max: number;
  readonly digest: string;
}

/** Integers are stored unchanged; other values are scaled to 16 bits. */
async function scaleOf(volume: VolumeFile, source: SourceSeries): Promise<Scale> {
  let [min, max, isWhole] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, true];
  const hash = createHash('sha256');
  for await (const { k, values } of slicesOnGrid(volume, source)) {
    hash.update(`${k} `).update(new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
    for (const value of values) {
      if (!Number.isFinite(value)) continue;
      if (value < min) min = value;
      if (value > max) max = value;
      isWhole &&= Number.isInteger(value);
    }
  }
  if (min > max) throw new VolumeError(`${path.basename(volume.path)} has no values.`);
  const digest = hash.digest('hex');
  if (isWhole && min >= -32768 && max <= 32767) return { slope: 1, intercept: 0, min, max, digest };
  // Rounded to the texts that are written (at most 16 characters), so that stored values match them.
  const slope = Number(decimalString((max - min) / 65_534 || 1));
  return { slope, intercept: Number(decimalString((max + min) / 2)), min, max, digest };
}

/**
 * Writes a volume of intensities as a derived series in the study of its source: CT for Hounsfield units, otherwise the modality
 * of the source. The volume must lie on the grid of the source, because intensities are not resampled. The UIDs are derived from
 * the source, the maker and the content. Different content gives a different series, since a viewer would otherwise merge both.
 * The directory must not exist; it appears only when it is complete.
 * @throws VolumeError for another grid, and for a series that is neither CT nor MR; the system's errors
 */
export async function writeDicomSeries(
  directory: string,
  volume: VolumeFile,
  source: SourceSeries,
  { maker, isHounsfield }: { readonly maker: Maker; readonly isHounsfield: boolean },
): Promise<WrittenObject> {
  const modality = isHounsfield ? 'CT' : (source.modality ?? '');
  const kind = kinds[modality];
  if (!kind || volume.components > 1)
    throw new VolumeError(
      `${path.basename(volume.path)} cannot become a derived series: they are written of CT and MR alone.`,
    );
  const scale = await scaleOf(volume, source);
  const seriesUid = derivedUid(
    'series',
    source.seriesUid,
    maker.app ?? '',
    maker.name,
    modality,
    scale.digest,
  );
  let altered: readonly string[] = [];
  await writeWhole(directory, async (unfinished) => {
    await mkdir(unfinished);
    for await (const { k, values } of slicesOnGrid(volume, source)) {
      const instanceUid = derivedUid(seriesUid, k);
      const object = { sopClass: kind.sopClass, seriesUid, instanceUid, modality, maker };
      const derived = derivedObject(source, { ...object, instanceNumber: k + 1 });
      altered = derived.altered;
      const stored = new Int16Array(values.length);
      for (let at = 0; at < stored.length; at += 1) {
        const value = values[at] as number;
        const known = Number.isNaN(value) ? scale.min : Math.min(scale.max, Math.max(scale.min, value));
        stored[at] = Math.round((known - scale.intercept) / scale.slope);
      }
      await writeFile(
        path.join(unfinished, `${String(k + 1).padStart(4, '0')}.dcm`),
        Buffer.concat([
          fileStart({ sopClass: kind.sopClass, sopInstance: instanceUid }),
          encodeElements([
            ...derived.elements,
            ...kind.demanded,
            ...imageOf(source, k, scale),
            ['7fe00010', 'OW', new Uint8Array(stored.buffer)],
          ]),
        ]),
      );
    }
  });
  const instanceUid = derivedUid(seriesUid, 0);
  return { seriesUid, instanceUid, isExact: true, isByNumber: false, segments: [], altered };
}

/** The elements for the pixels and the position of an image. */
function imageOf(source: SourceSeries, k: number, { slope, intercept, min, max }: Scale): DicomElement[] {
  const between = spacingBetween(source);
  return [
    referencedSeries(source, source.slices[k]),
    sourceImages(source.slices[k] ?? []),
    ['00180050', 'DS', decimalString(source.thickness || between)],
    ['00180088', 'DS', decimalString(between)],
    ['00185100', 'CS', ''],
    ['00200032', 'DS', decimals(positionOf(source, k))],
    ['00200037', 'DS', decimals(source.orientation)],
    ['00200060', 'CS', ''],
    ['00280002', 'US', 1],
    ['00280004', 'CS', 'MONOCHROME2'],
    ['00280010', 'US', source.size[1]],
    ['00280011', 'US', source.size[0]],
    ['00280030', 'DS', decimals(source.pixelSpacing)],
    ['00280100', 'US', 16],
    ['00280101', 'US', 16],
    ['00280102', 'US', 15],
    ['00280103', 'US', 1],
    ['00281050', 'DS', decimalString((min + max) / 2)],
    ['00281051', 'DS', decimalString(Math.max(1, max - min))],
    ['00281052', 'DS', decimalString(intercept)],
    ['00281053', 'DS', decimalString(slope)],
    ...source.lossy,
  ];
}
