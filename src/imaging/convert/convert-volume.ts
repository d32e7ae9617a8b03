import { existsSync } from 'node:fs';
import path from 'node:path';
import {
  type LabelLayer,
  type Maker,
  placeOnGrid,
  readVolume,
  type Segment,
  type SourceSeries,
  shearOf,
  VolumeError,
  type VolumeFile,
  writeDicomSeg,
  writeDicomSeries,
  writeRtStruct,
  writeSegNrrd,
  writeVolume,
} from '@remote-app/volumes';
import type { CaseRecord } from '../../client/case/index.js';
import { ofStudy, type ResultFormat } from '../../client/result-formats.js';

/** A volume, and what is needed to convert it. */
export interface VolumeToConvert {
  readonly volume: VolumeFile;
  /** Whether its values are labels. */
  readonly isLabelMap: boolean;
  /** Its labels with their names. */
  readonly layers: readonly LabelLayer[];
  /** The names of two segments that overlap; null if none do. */
  readonly overlap: readonly [string, string] | null;
  /** The series that it belongs to; called only if a format needs it. */
  readonly series: () => Promise<SourceSeries>;
  /** The same series for formats that can do without it; null if there is none, or if it is uncertain. */
  readonly seriesIfAny: () => Promise<SourceSeries | null>;
  readonly maker: Maker;
  /** Whether its intensities are said to be Hounsfield units. */
  readonly isHounsfield: boolean;
  /** Whether a label map on a different grid from its scan is refused. */
  readonly isStrict: boolean;
  /** Whether an existing file is replaced. */
  readonly mayReplace: boolean;
}

/** The result of writing a volume in one format. */
export interface WrittenVolume {
  /** The labels that occur in it; empty for formats that do not name them. */
  readonly segments: readonly Segment[];
  /** A note for the user, as a sentence without a full stop; null if there is none. */
  readonly note: string | null;
}

/** What made a file, to be recorded in its conversions. @param record of its result; null if there is none */
export const makerOf = (
  record: CaseRecord | null,
  { version, name, writtenAt }: { readonly version: string; readonly name: string; readonly writtenAt: Date },
): Maker => ({
  app: record?.app ?? null,
  appVersion: record?.app_version ?? null,
  version,
  name,
  madeAt: record?.finished_at ? new Date(record.finished_at) : writtenAt,
});

/** Extension of the file or directory that a format is written to; null if the format cannot hold such a volume. */
export function endingOf(format: ResultFormat, isLabelMap: boolean): string | null {
  const endings: Record<ResultFormat, readonly [labels: string | null, intensities: string | null]> = {
    'dicom-seg': ['.seg.dcm', null],
    'dicom-labelmap': ['.labelmap.dcm', null],
    rtstruct: ['.rtstruct.dcm', null],
    nrrd: ['.seg.nrrd', '.nrrd'],
    nifti: ['.nii.gz', '.nii.gz'],
    dicom: [null, '.dicom'],
  };
  return endings[format][isLabelMap ? 0 : 1];
}

/**
 * Writes a volume in another format.
 * @throws NoLabels; VolumeError for a volume that cannot be converted; the system's errors
 */
export async function convertVolume(
  target: string,
  format: ResultFormat,
  conversion: VolumeToConvert,
): Promise<WrittenVolume> {
  const { volume, isLabelMap, layers, overlap, series, maker, isStrict, mayReplace, isHounsfield } =
    conversion;
  // An existing directory may contain more than an earlier series, so it is never replaced.
  if (existsSync(target) && (!mayReplace || format === 'dicom'))
    throw new VolumeError(`${path.basename(target)} already exists.`);
  if (format === 'nrrd' && isLabelMap) {
    const scan = await conversion.seriesIfAny();
    // The volume's own grid is right, unless the program that made it misplaced the slices of a tilted gantry.
    const grid = scan && placeOnGrid(volume, scan).isByNumber ? scan : null;
    const written = await writeSegNrrd(target, layers, grid ? { grid, isStrict } : {});
    return { segments: written.segments, note: grid && byNumberNote(volume, grid) };
  }
  if (!ofStudy.has(format)) {
    await writeVolume(target, { ...(await readVolume(volume)), isTimeSeries: !volume.hasVectors });
    return { segments: [], note: null };
  }
  if (format === 'dicom-labelmap' && overlap)
    throw new VolumeError(
      `${overlap[0]} and ${overlap[1]} overlap, and a map has one label for each voxel: give --as dicom-seg.`,
    );
  const source = await series();
  if (!volume.hasOrientation && !placeOnGrid(volume, source).isExact)
    throw new VolumeError(
      `${path.basename(volume.path)} does not say where its voxels lie, so they cannot be put on ${source.name}: write it with an orientation, such as the sform of NIfTI.`,
    );
  if (format === 'dicom') {
    const { altered } = await writeDicomSeries(target, volume, source, { maker, isHounsfield });
    return { segments: [], note: alteredNotes(target, altered)[0] ?? null };
  }
  const how = { maker, isStrict };
  const written =
    format === 'rtstruct'
      ? await writeRtStruct(target, layers, source, how)
      : await writeDicomSeg(target, layers, source, { ...how, isLabelMap: format === 'dicom-labelmap' });
  const nearest = `${path.basename(volume.path)} lies on another grid than ${source.name}, so that ${path.basename(target)} has the labels of the nearest voxels`;
  const placed = written.isByNumber ? byNumberNote(volume, source) : nearest;
  const notes = [
    ...(written.isExact ? [] : [placed]),
    ...alteredNotes(target, written.altered),
    ...(format !== 'rtstruct' && shearOf(source) > seenShear ? [tiltedNote(target, source)] : []),
  ];
  return { segments: written.segments, note: notes.join('; ') || null };
}

/** Notes about texts that lost characters. */
const alteredNotes = (target: string, altered: readonly string[]): string[] =>
  altered.length === 0
    ? []
    : [
        `the texts of the scan cannot be decoded, so ${path.basename(target)} has to be in ASCII, where ${altered.map((each) => `'${each}'`).join(', ')} lose their accents, and are called by their values if they have other letters`,
      ];

/** Gantry tilt in degrees from which it is visible in a viewer. */
const seenShear = 2;

const tiltedNote = (target: string, { name }: SourceSeries): string =>
  `dcmqi, by which 3D Slicer reads ${path.basename(target)}, ignores the tilted gantry of ${name}: open what --as nrrd writes there`;

const byNumberNote = ({ path: file }: VolumeFile, { name }: SourceSeries): string =>
  `${path.basename(file)} has the voxels of ${name}, but not its places, since what made it did not reckon with the tilted gantry: its labels are put on the images of the same number`;
