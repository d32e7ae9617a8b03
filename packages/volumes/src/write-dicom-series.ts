import { createHash } from 'node:crypto';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import {
  decimals,
  derivedObject,
  positionOf,
  referencedSeries,
  sourceImages,
  spacingBetween,
} from './derived-object.js';
import { derivedUid } from './dicom-uid.js';
import { type DicomElement, decimalString, encodeElements, fileStart } from './dicom-write.js';
import { slicesOnGrid } from './onto-grid.js';
import type { Maker, SourceSeries, WrittenObject } from './segments.js';
import { VolumeError, type VolumeFile } from './volume.js';

/** The classes of single images that a derived series may have, with what these demand besides. */
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

/** What the values of 16 bits mean: value = stored x slope + intercept. */
interface Scale {
  readonly slope: number;
  readonly intercept: number;
  readonly least: number;
  readonly most: number;
  readonly digest: string;
}

/** Whole numbers stay as they are; others are spread over the 16 bits. */
async function scaleOf(volume: VolumeFile, source: SourceSeries): Promise<Scale> {
  let [least, most, isWhole] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, true];
  const hash = createHash('sha256');
  for await (const { k, values } of slicesOnGrid(volume, source)) {
    hash.update(`${k} `).update(new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
    for (const value of values) {
      if (!Number.isFinite(value)) continue;
      if (value < least) least = value;
      if (value > most) most = value;
      isWhole &&= Number.isInteger(value);
    }
  }
  if (least > most) throw new VolumeError(`${path.basename(volume.path)} has no values.`);
  const digest = hash.digest('hex');
  if (isWhole && least >= -32768 && most <= 32767) return { slope: 1, intercept: 0, least, most, digest };
  // Numbers of these texts have at most 16 characters: the stored values are those of the numbers that are written.
  const slope = Number(decimalString((most - least) / 65_534 || 1));
  return { slope, intercept: Number(decimalString((most + least) / 2)), least, most, digest };
}

/**
 * Writes a volume of intensities as a derived series of single images into the study of its series, of CT where its values are
 * Hounsfield units, otherwise of its series' modality. It has to lie on the grid of the series: intensities are not looked up at
 * other places. The UIDs are made of the series, of what made it, and of its content: another content is another series, since a
 * viewer would take images of both for one. The directory appears when it is complete; it must not be there.
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
  const unfinished = `${directory}.${process.pid}.part`;
  let altered: readonly string[] = [];
  try {
    await mkdir(unfinished);
    for await (const { k, values } of slicesOnGrid(volume, source)) {
      const instanceUid = derivedUid(seriesUid, k);
      const { elements, altered: lost } = derivedObject(source, {
        sopClass: kind.sopClass,
        seriesUid,
        instanceUid,
        modality,
        description: maker.name,
        instanceNumber: k + 1,
        maker,
      });
      altered = lost;
      const stored = new Int16Array(values.length);
      for (let at = 0; at < stored.length; at += 1) {
        const value = values[at] as number;
        stored[at] = Math.round(
          ((Number.isFinite(value) ? value : scale.least) - scale.intercept) / scale.slope,
        );
      }
      const pixels = new Uint8Array(stored.buffer);
      await writeFile(
        path.join(unfinished, `${String(k + 1).padStart(4, '0')}.dcm`),
        Buffer.concat([
          fileStart({ sopClass: kind.sopClass, sopInstance: instanceUid }),
          encodeElements([
            ...elements,
            ...kind.demanded,
            ...imageOf(source, k, scale),
            ['7fe00010', 'OW', pixels],
          ]),
        ]),
      );
    }
    await rename(unfinished, directory);
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true });
    throw error;
  }
  const instanceUid = derivedUid(seriesUid, 0);
  return { seriesUid, instanceUid, isExact: true, isByNumber: false, segments: [], altered };
}

/** What describes the pixels and the place of an image. */
function imageOf(source: SourceSeries, k: number, { slope, intercept, least, most }: Scale): DicomElement[] {
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
    ['00281050', 'DS', decimalString((least + most) / 2)],
    ['00281051', 'DS', decimalString(Math.max(1, most - least))],
    ['00281052', 'DS', decimalString(intercept)],
    ['00281053', 'DS', decimalString(slope)],
    ...(source.lossy.length > 0 ? source.lossy : [['00282110', 'CS', '00'] as const]),
  ];
}
