import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import { type Maker, openVolume, type VolumeFile } from '@remote-app/volumes';
import { UsageError } from '../../client/errors.js';
import type { Reporter } from '../../client/reporter.js';
import { ofSegments, ofStudy, type ResultFormat } from '../../client/result-formats.js';
import { oneLine, quotePath } from '../../contract/index.js';
import { findVolumes, withoutVolumeEnding } from '../inputs/index.js';
import {
  type Named,
  namedBy,
  organGroups,
  readTerminology,
  recordOf,
  resultOf,
  type Terminology,
} from '../matching/index.js';
import { looksOf } from '../pictures/index.js';
import { convertVolume, endingOf, makerOf, type VolumeToConvert } from './convert-volume.js';
import { joinNamed } from './mask-groups.js';
import { checkScans, Scans, scanFrom } from './scans.js';
import { layersOf } from './segments.js';

/** A file that was written. */
export interface ConvertedFile {
  readonly as: ResultFormat;
  readonly output: string;
  readonly labels: readonly { readonly value: number; readonly name: string }[];
  /** A note for the user; null if there is none. */
  readonly note: string | null;
}

export interface ConvertOptions {
  readonly formats: readonly ResultFormat[];
  /** The scan, as a path; null if none was given. */
  readonly like: string | null;
  /** The file to write; null for one beside the mask. */
  readonly output: string | null;
  /** `1=liver,2=tumour`, or a file; null for the labels in the record of the result. */
  readonly labels: string | null;
  readonly isStrict: boolean;
  readonly mayReplace: boolean;
  /** Version of this program. */
  readonly version: string;
}

/** The label names given on the command line, or read from a file. @throws UsageError */
function namesOf(text: string): Terminology {
  if (!text.includes('=') || existsSync(text)) return readTerminology(text);
  return Object.fromEntries(
    text.split(',').map((pair) => {
      const [, value, name] = /^\s*(\d{1,5})\s*=\s*(\S.*?)\s*$/.exec(pair) ?? [];
      if (value === undefined || name === undefined)
        throw new UsageError(`--labels has '${oneLine(pair)}'; name labels as in 1=liver,2=tumour`);
      return [value, { name }];
    }),
  );
}

/** What is converted: a volume, or the single-segment masks of a directory. */
interface Source extends Pick<VolumeToConvert, 'volume' | 'layers' | 'overlap'> {
  /** Path of the output, without its extension. */
  readonly stem: string;
  /** The names that its scan is matched by. */
  readonly named: Named;
  /** One of its files. */
  readonly file: string;
}

/** The volumes directly in a directory, without earlier conversions; empty if it contains a DICOM series. */
async function volumesIn(directory: string): Promise<string[]> {
  if (!statSync(directory, { throwIfNoEntry: false })?.isDirectory()) return [];
  const units = await findVolumes([directory]).catch(() => []);
  if (units.some(({ kind }) => kind === 'series')) return [];
  const isHere = (file: string) => path.resolve(path.dirname(file)) === path.resolve(directory);
  return units.flatMap(({ kind, format, path: file }) =>
    kind === 'file' && format !== 'DICOM' && isHere(file) && !/\.seg\.nrrd$/i.test(file) ? [file] : [],
  );
}

/**
 * The masks of a directory as one segmentation, whose segments are named after the files.
 * @throws UsageError for a file that is not a mask of a single segment, and for masks of several people; VolumeError
 */
async function masksIn(
  directory: string,
  files: readonly string[],
  terminology: Terminology,
): Promise<Source> {
  const masks: { volume: VolumeFile; named: Named }[] = [];
  for (const file of files) {
    const volume = await openVolume(file);
    if (volume.frames > 1 || (await looksOf(volume)) !== 'binary')
      throw new UsageError(
        `${quotePath(file)} is no mask of a single structure, and only these become one file: convert it alone`,
      );
    masks.push({ volume, named: namedBy(file) });
  }
  const named = masks.map(({ volume }) => ({
    file: volume,
    name: withoutVolumeEnding(path.basename(volume.path)),
  }));
  const [group, other] = organGroups(
    named,
    Object.values(terminology).map(({ name }) => name),
  );
  if (group && other)
    throw new UsageError(
      `${quotePath(directory)} has masks of ${group.prefix || 'one'} and of ${other.prefix || 'another'}: give each a directory`,
    );
  const prefix = group?.masks.length === masks.length ? group.prefix : '';
  const { layers, overlap, stem } = await joinNamed(masks, prefix, terminology);
  const [first] = masks;
  const [layer] = layers;
  if (!first || !layer) throw new RangeError('There is no mask.');
  return { volume: layer.mask, layers, overlap, stem, named: first.named, file: first.volume.path };
}

async function volumeAt(file: string, terminology: Terminology): Promise<Source> {
  const volume = await openVolume(file);
  const stem = path.join(path.dirname(file), withoutVolumeEnding(path.basename(file)));
  return { volume, ...layersOf(volume, terminology), stem, named: namedBy(file), file };
}

/** What made a volume, as the record beside it says; unknown without a record. */
function makerBeside({ file, stem }: Source, version: string): Maker {
  const result = resultOf(file);
  const inResult = result === null ? path.basename(stem) : path.relative(result.path, path.resolve(stem));
  const name = inResult.split(path.sep).join('/');
  return makerOf(recordOf(result), { version, name, writtenAt: statSync(file).mtime });
}

/** The scan given with `--like`. @throws UsageError for a path that is not a scan, or a scan without a study */
async function scansLike(like: string | null, formats: readonly ResultFormat[]) {
  if (like === null) {
    const needing = formats.find((format) => ofStudy.has(format));
    if (needing === undefined) return new Scans([]);
    throw new UsageError(`--as ${needing} lies in the study of a scan: name its DICOM series with --like`);
  }
  const scans = (await findVolumes([like])).map(scanFrom);
  checkScans(scans, formats);
  return new Scans(scans);
}

/** File extensions by which other programs recognise these formats. */
const endings: Partial<Record<ResultFormat, RegExp>> = { nifti: /\.nii(\.gz)?$/i, nrrd: /\.nrrd$/i };

/** The path that a format is written to. */
function targetOf(
  { file, stem }: Pick<Source, 'file' | 'stem'>,
  output: string | null,
  format: ResultFormat,
  isLabelMap: boolean,
): string {
  const ending = endingOf(format, isLabelMap);
  if (ending === null)
    throw new UsageError(
      `${quotePath(file)} has ${isLabelMap ? 'labels' : 'intensities'}, which --as ${format} cannot hold`,
    );
  if (output !== null && endings[format]?.test(output) === false)
    throw new UsageError(`${quotePath(output)} does not have the extension of ${format}, such as ${ending}`);
  const target = output ?? stem + ending;
  if (path.resolve(target) === path.resolve(file))
    throw new UsageError(`${quotePath(file)} is already in that format`);
  return path.resolve(target);
}

/**
 * Whether a volume is written as labels. For formats that hold both labels and intensities, this depends on what the volume looks
 * like.
 */
async function isWrittenAsLabels(format: ResultFormat, volume: VolumeFile) {
  if (endingOf(format, false) === null) return true;
  if (endingOf(format, true) === null) return false;
  return (await looksOf(volume)) !== 'continuous';
}

/**
 * Converts an existing file, or a directory of masks.
 * @returns each file once it is written
 * @throws UsageError; VolumeError for a volume that cannot be read or converted; the system's errors
 */
export async function* convertFile(
  given: string,
  options: ConvertOptions,
  reporter: Reporter,
): AsyncGenerator<ConvertedFile, void, undefined> {
  const { formats, like, output, labels, ...how } = options;
  if (output !== null && formats.length > 1)
    throw new UsageError('--output names one file, and there are several formats; leave it out');
  const typed = labels === null ? null : namesOf(labels);
  const scans = await scansLike(like, formats);
  const files = await volumesIn(given);
  const nameless = formats.find((format) => files.length > 0 && !ofSegments.has(format));
  if (nameless !== undefined)
    throw new UsageError(
      `--as ${nameless} does not name segments: convert the files of ${quotePath(given)} one by one`,
    );
  const recorded = recordOf(resultOf(files[0] ?? given));
  const terminology = typed ?? recorded?.labels ?? {};
  const source =
    files.length > 0 ? await masksIn(given, files, terminology) : await volumeAt(given, terminology);
  const { volume, layers, overlap, named } = source;
  const maker = makerBeside(source, how.version);
  for (const format of formats) {
    const isLabelMap = files.length > 0 || (await isWrittenAsLabels(format, volume));
    const target = targetOf(source, output, format, isLabelMap);
    if (!how.mayReplace && existsSync(target))
      throw new UsageError(`${quotePath(target)} already exists; replace it with --force`);
    const conversion: VolumeToConvert = {
      ...{ ...how, volume, isLabelMap, layers, overlap, maker },
      series: () => scans.scanOf(volume, named),
      seriesIfAny: () => scans.certainScanOf(volume, named),
      isHounsfield: (recorded?.units.outputs ?? volume.unit) === 'HU',
    };
    reporter.waiting(`Writing ${path.basename(target)}`);
    const { segments, note } = await convertVolume(target, format, conversion).finally(() =>
      reporter.waiting(null),
    );
    if (note !== null) reporter.note(note);
    const written = segments.map((segment) => ({ value: segment.value, name: segment.name }));
    yield { as: format, output: target, labels: written, note };
  }
}
