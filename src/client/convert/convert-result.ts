import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { counted } from '../../contract/index.js';
import { foldedName } from '../../files/index.js';
import { type Maker, NoLabels, openVolume, VolumeError } from '../../volumes/index.js';
import { type FoundFiles, findVolumes, withoutVolumeEnding } from '../inputs/index.js';
import { foldersOf, looksOf, type Named, type Terminology } from '../pictures/index.js';
import type { ResultFormat } from '../result-formats.js';
import { convertVolume, endingOf } from './convert-volume.js';
import { checkScans, type Scan, Scans, scanOf } from './scans.js';
import { segmentsOf } from './segments.js';

/** A file of a result that was written from another one of it. Names are paths with slashes in its directory. */
export interface ConvertedOutput {
  readonly from: string;
  readonly as: ResultFormat;
  readonly name: string;
}

/** What became of the formats that were asked for. */
export interface Conversion {
  readonly as: readonly ResultFormat[];
  readonly outputs: readonly ConvertedOutput[];
  /** Why something was not converted, in sentences without a full stop. */
  readonly problems: readonly string[];
}

/** What a person asked for with --as. */
export interface ConversionRequest {
  readonly formats: readonly ResultFormat[];
  /** Whether label maps on other grids than their scans are refused. */
  readonly isStrict: boolean;
}

/** What made a result, and what it calls its labels. */
export interface ResultFacts extends Omit<Maker, 'name'> {
  readonly terminology: Terminology;
  /** The unit of the intensities that come back; null if the app names none. */
  readonly unit: string | null;
}

/** The scans among what is sent. */
const scansOf = (found: FoundFiles): Scan[] =>
  found.volumes
    .filter(({ field }) => field.name === 'inputs')
    .flatMap(({ groups }) => groups.flat().filter(({ isHalf }) => !isHalf))
    .map(scanOf);

/**
 * Refuses what results of these files cannot be converted to, before anything is sent.
 * @throws UsageError
 */
export const checkRequest = (found: FoundFiles, { formats }: ConversionRequest): void =>
  checkScans(scansOf(found), formats);

/**
 * Converts the volumes of a result in the directory where it is completed, beside the originals: label maps and intensities each
 * to those formats that can hold them. What cannot be converted is told, and the rest goes on.
 * @param tell is told what a person should know of a file that was written
 * @throws the system's errors of what cannot be written
 */
export async function convertResult(
  directory: string,
  found: FoundFiles,
  { formats, isStrict }: ConversionRequest,
  { terminology, unit, ...made }: ResultFacts,
  tell: (note: string) => void,
): Promise<Conversion> {
  const scans = new Scans(scansOf(found));
  const outputs: ConvertedOutput[] = [];
  const problems: string[] = [];
  const units = await findVolumes([directory]).catch(() => []);
  const files = units.flatMap((unit) => (unit.kind === 'file' ? [unit.path] : [])).sort();
  const nameOf = (file: string) => path.relative(directory, file).split(path.sep).join('/');
  for (const file of files) {
    const from = nameOf(file);
    const stem = withoutVolumeEnding(from);
    try {
      const volume = await openVolume(file);
      if (volume.components > 1 || volume.frames > 1) continue;
      const isLabelMap = (await looksOf(volume)) !== 'continuous';
      const named: Named = {
        stem: foldedName(withoutVolumeEnding(path.basename(file))),
        folders: foldersOf(stem),
      };
      for (const format of formats) {
        const ending = endingOf(format, isLabelMap);
        if (ending === null) continue;
        const target = path.join(directory, ...`${stem}${ending}`.split('/'));
        // In that format already.
        if (path.resolve(target) === path.resolve(file)) continue;
        const isThere = existsSync(target);
        const conversion = {
          volume,
          isLabelMap,
          segments: segmentsOf(volume, terminology),
          series: () => scans.of(volume, named),
          seriesIfAny: () => scans.ifAny(volume, named),
          maker: { ...made, name: stem },
          isHounsfield: unit === 'HU' || volume.unit === 'HU',
          isStrict,
          mayReplace: false,
        };
        try {
          const { note } = await convertVolume(target, format, conversion);
          if (note !== null) tell(note);
          outputs.push({ from, as: format, name: nameOf(target) });
        } catch (error) {
          if (!(error instanceof VolumeError)) throw error;
          if (!isThere) await rm(target, { recursive: true, force: true });
          // Nothing was found, which is a result as well.
          if (error instanceof NoLabels) tell(`${error.message} --as ${format} writes nothing of it`);
          else problems.push(`${from} is not converted to ${format}: ${error.message.replace(/\.$/, '')}`);
        }
      }
    } catch (error) {
      if (!(error instanceof VolumeError)) throw error;
      problems.push(`${from} is not converted: ${error.message.replace(/\.$/, '')}`);
    }
  }
  if (files.length > 0 && outputs.length === 0 && problems.length === 0)
    tell(`Nothing of the ${counted(files.length, 'volume')} that came back needed a conversion`);
  return { as: formats, outputs, problems };
}
