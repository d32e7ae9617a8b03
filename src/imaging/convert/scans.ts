import path from 'node:path';
import {
  liesOnGrid,
  readSourceSeries,
  type SourceSeries,
  VolumeError,
  type VolumeFile,
} from '@remote-app/volumes';
import { UsageError } from '../../client/errors.js';
import type { Unit } from '../../client/found-files.js';
import { ofStudy, type ResultFormat } from '../../client/result-formats.js';
import { quotePath } from '../../contract/index.js';
import { foldedName } from '../../files/index.js';
import { withoutVolumeEnding } from '../inputs/index.js';
import { foldersOf, type Named, ScanMatcher } from '../matching/index.js';

/** A scan that results may be of. */
export interface Scan extends Named {
  readonly path: string;
  /** The files of a DICOM series; null for another format. */
  readonly series: readonly string[] | null;
}

/** What tells whose a file is: its name and its folders. */
export const namedBy = (file: string): Named => ({
  stem: foldedName(withoutVolumeEnding(path.basename(file))),
  folders: foldersOf(file),
});

/** A scan of what was found on this machine. */
export function scanOf(unit: Unit): Scan {
  const isSeries = unit.kind === 'series';
  const name = isSeries ? unit.wanted : withoutVolumeEnding(path.basename(path.resolve(unit.path)));
  return {
    path: unit.path,
    stem: foldedName(name),
    folders: foldersOf(unit.path),
    series: isSeries
      ? unit.files.map((file) => file.path)
      : unit.kind === 'file' && unit.format === 'DICOM'
        ? [unit.path]
        : null,
  };
}

/**
 * Refuses formats that only a DICOM scan has a study for, before anything is sent.
 * @throws UsageError
 */
export function checkScans(scans: readonly Scan[], formats: readonly ResultFormat[]): void {
  const format = formats.find((each) => ofStudy.has(each));
  const other = scans.find(({ series }) => series === null);
  if (format === undefined) return;
  if (other)
    throw new UsageError(
      `${quotePath(other.path)} is no DICOM series, so that there is no study that ${format} could lie in; give --as nrrd`,
    );
}

/** The scans of a case, of which results are. */
export class Scans {
  readonly #series = new Map<Scan, Promise<SourceSeries>>();

  constructor(private readonly scans: readonly Scan[]) {}

  /**
   * The series that a result belongs to: that which its name and folders say, and where these leave a doubt, that on whose grid it
   * lies. Several series on one grid of one study show the same place: the first is taken.
   * @throws VolumeError with the names of several that it fits, and for a series that cannot be read
   */
  async of(result: VolumeFile, name: Named): Promise<SourceSeries> {
    const [only, ...more] = this.scans;
    if (!only) throw new VolumeError(`${path.basename(result.path)} is of no scan.`);
    if (more.length === 0) return this.#read(only);
    const { scans, isSaid } = new ScanMatcher(this.scans).fit(name);
    const fitting = isSaid && scans.length > 0 ? scans : this.scans;
    const all = await Promise.all(fitting.map((each) => this.#read(each)));
    const onGrid = all.filter((series) => liesOnGrid(result, series));
    const left = onGrid.length > 0 ? onGrid : all;
    const [first, second] = left;
    if (!first) throw new VolumeError(`${path.basename(result.path)} is of no scan.`);
    const isOnePlace = left.every(
      ({ studyUid, frameOfReferenceUid }) =>
        studyUid === first.studyUid && frameOfReferenceUid === first.frameOfReferenceUid,
    );
    if (!second || (onGrid.length > 0 && isOnePlace)) return first;
    throw new VolumeError(
      `${path.basename(result.path)} fits ${first.name} and ${second.name} equally well, and is put beside none of them: name one of them with 'remote-app convert --like'.`,
    );
  }

  /** Whether names and folders say the same of several results: that they are of the same scans, or nothing. */
  areOfOne(names: readonly Named[]): boolean {
    if (this.scans.length < 2) return true;
    const matcher = new ScanMatcher(this.scans);
    const said = names.map((name) => {
      const { scans, isSaid } = matcher.fit(name);
      return isSaid ? scans.map(({ path: each }) => each).join('\0') : null;
    });
    return new Set(said).size === 1;
  }

  /** `of` for a format that has no need of it; null where no scan is a series, or none for certain. */
  async ifAny(result: VolumeFile, name: Named): Promise<SourceSeries | null> {
    if (this.scans.some(({ series }) => series === null)) return null;
    return this.of(result, name).catch((error: Error) => {
      if (error instanceof VolumeError) return null;
      throw error;
    });
  }

  #read(scan: Scan): Promise<SourceSeries> {
    const known = this.#series.get(scan) ?? readSourceSeries(scan.series ?? [scan.path]);
    this.#series.set(scan, known);
    return known;
  }
}
