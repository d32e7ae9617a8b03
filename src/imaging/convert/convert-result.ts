import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { NoLabels, openVolume, VolumeError } from '@remote-app/volumes';
import type { CaseRecord, Conversion, ConversionRequest } from '../../client/case/index.js';
import type { FoundFiles } from '../../client/found-files.js';
import { ofSegments, type ResultFormat } from '../../client/result-formats.js';
import { counted } from '../../contract/index.js';
import { findVolumes, withoutVolumeEnding } from '../inputs/index.js';
import { namedBy, type Terminology } from '../matching/index.js';
import { type Looks, looksOf } from '../pictures/index.js';
import { convertVolume, endingOf, makerOf, type VolumeToConvert } from './convert-volume.js';
import { groupMasks, type ResultMask } from './mask-groups.js';
import { checkScans, type Scan, Scans, scanFrom } from './scans.js';
import { layersOf } from './segments.js';

/** The scans among the files to be sent. */
const scansOf = (found: FoundFiles): Scan[] =>
  found.volumes
    .filter(({ field }) => field.name === 'inputs')
    .flatMap(({ groups }) => groups.flat().filter(({ isHalf }) => !isHalf))
    .map(scanFrom);

/** Refuses formats that results of these files cannot be converted to, before anything is sent. @throws UsageError */
export const checkRequest = (found: FoundFiles, { formats }: ConversionRequest): void =>
  checkScans(scansOf(found), formats);

/** A volume of a result. */
interface ResultVolume extends ResultMask {
  readonly file: string;
  readonly looks: Looks;
}

/** One or several volumes that become one file in each of some formats. */
interface Source extends Pick<VolumeToConvert, 'layers' | 'overlap'> {
  /** One, or the masks of several segments. */
  readonly volumes: readonly ResultVolume[];
  /** Path of the output, without its extension. */
  readonly stem: string;
  readonly formats: readonly ResultFormat[];
}

/** Groups the volumes to be converted together; all others are converted one by one. */
async function sourcesOf(
  volumes: readonly ResultVolume[],
  formats: readonly ResultFormat[],
  terminology: Terminology,
  scans: Scans,
): Promise<Source[]> {
  const named = formats.filter((format) => ofSegments.has(format));
  const single = volumes.map((each): Source => {
    const stem = withoutVolumeEnding(each.file);
    return { volumes: [each], stem, ...layersOf(each.volume, terminology), formats };
  });
  if (named.length === 0) return single;
  const taken = new Set(single.map(({ stem }) => stem));
  const masks = volumes.filter(({ looks }) => looks === 'binary');
  const groups = await groupMasks(masks, taken, terminology, scans);
  const grouped = new Set(groups.flatMap(({ masks: members }) => members));
  const others = formats.filter((format) => !ofSegments.has(format));
  return [
    ...single.map((each) =>
      each.volumes.some((one) => grouped.has(one)) ? { ...each, formats: others } : each,
    ),
    ...groups.map(({ masks: members, ...group }): Source => ({ ...group, volumes: members, formats: named })),
  ];
}

/**
 * Converts the volumes of a result, beside the originals in the directory where the result is completed. Label maps and
 * intensities are converted to the formats that can hold them. A volume that cannot be converted is reported, and the others are
 * still converted.
 * @param tell receives notes for the user about the files written
 * @throws the system's errors if a file cannot be written
 */
export async function convertResult(
  directory: string,
  found: FoundFiles,
  { formats, isStrict }: ConversionRequest,
  record: CaseRecord,
  tell: (note: string) => void,
): Promise<Conversion> {
  const scans = new Scans(scansOf(found));
  const outputs: Conversion['outputs'] = [];
  const problems: string[] = [];
  const units = await findVolumes([directory]).catch(() => []);
  const files = units.flatMap((each) => (each.kind === 'file' ? [each.path] : [])).sort();
  const nameOf = (file: string) => path.relative(directory, file).split(path.sep).join('/');
  const why = (error: VolumeError) => error.message.replace(/\.$/, '');
  const volumes: ResultVolume[] = [];
  for (const file of files) {
    try {
      const volume = await openVolume(file);
      if (volume.components > 1 || volume.frames > 1) continue;
      volumes.push({ file, volume, named: namedBy(nameOf(file)), looks: await looksOf(volume) });
    } catch (error) {
      if (!(error instanceof VolumeError)) throw error;
      problems.push(`${nameOf(file)} is not converted: ${why(error)}`);
    }
  }
  for (const source of await sourcesOf(volumes, formats, record.labels, scans)) {
    const { layers, overlap } = source;
    const [first] = source.volumes;
    if (!first) continue;
    const isLabelMap = first.looks !== 'continuous';
    const stem = nameOf(source.stem);
    // Masks that are combined become a single label map.
    const volume = source.volumes.length > 1 && layers[0] ? layers[0].mask : first.volume;
    for (const format of source.formats) {
      const ending = endingOf(format, isLabelMap);
      if (ending === null) continue;
      const target = source.stem + ending;
      // In that format already.
      if (path.resolve(target) === path.resolve(first.file)) continue;
      const isThere = existsSync(target);
      const conversion = {
        volume,
        isLabelMap,
        layers,
        overlap,
        series: () => scans.scanOf(volume, first.named),
        seriesIfAny: () => scans.certainScanOf(volume, first.named),
        maker: makerOf(record, { version: record.client_version, name: stem, writtenAt: new Date() }),
        isHounsfield: record.units.outputs === 'HU' || volume.unit === 'HU',
        isStrict,
        mayReplace: false,
      };
      try {
        const { note } = await convertVolume(target, format, conversion);
        if (note !== null) tell(note);
        for (const each of source.volumes)
          outputs.push({ from: nameOf(each.file), as: format, name: nameOf(target) });
      } catch (error) {
        if (!(error instanceof VolumeError)) throw error;
        if (!isThere) await rm(target, { recursive: true, force: true });
        // An empty segmentation is a valid result.
        if (error instanceof NoLabels) tell(`${error.message} --as ${format} writes nothing of it`);
        else problems.push(`${nameOf(volume.path)} is not converted to ${format}: ${why(error)}`);
      }
    }
  }
  if (files.length > 0 && outputs.length === 0 && problems.length === 0)
    tell(`None of the ${counted(files.length, 'volume')} in the result needed a conversion`);
  return { as: [...formats], outputs, problems };
}
