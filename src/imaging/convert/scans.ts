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
import { type Named, namedBy, ScanMatcher, scanOf } from '../matching/index.js';

/** A scan that results may belong to. */
export interface Scan extends Named {
  readonly path: string;
  /** The files of a DICOM series; null for another format. */
  readonly series: readonly string[] | null;
}

/** Describes a unit found on this machine as a scan. */
export const scanFrom = (unit: Unit): Scan => ({
  ...namedBy(unit.path, unit.kind === 'series' ? unit.wanted : undefined),
  path: unit.path,
  series:
    unit.kind === 'series'
      ? unit.files.map((file) => file.path)
      : unit.kind === 'file' && unit.format === 'DICOM'
        ? [unit.path]
        : null,
});

/** Refuses formats that need the study of a DICOM scan if a scan has none, before anything is sent. @throws UsageError */
export function checkScans(scans: readonly Scan[], formats: readonly ResultFormat[]): void {
  const format = formats.find((each) => ofStudy.has(each));
  const other = scans.find(({ series }) => series === null);
  if (format === undefined) return;
  if (other)
    throw new UsageError(
      `${quotePath(other.path)} is no DICOM series, so that there is no study that ${format} could lie in; give --as nrrd`,
    );
}

/** Whether series show the same place: whether they share a study and a frame of reference. */
const areOfOnePlace = (all: readonly SourceSeries[]): boolean =>
  all.every(
    ({ studyUid, frameOfReferenceUid }) =>
      studyUid === all[0]?.studyUid && frameOfReferenceUid === all[0]?.frameOfReferenceUid,
  );

/** The scans of a case, to which its results belong. */
export class Scans {
  readonly #series = new Map<Scan, Promise<SourceSeries>>();

  constructor(private readonly scans: readonly Scan[]) {}

  /**
   * The series that a result belongs to, found by names and folders, or by the grid if these leave a doubt. Several series on one
   * grid in one study show the same place, so the first is taken.
   * @throws VolumeError with the names of several series that fit equally well, and for a series that cannot be read
   */
  async scanOf(result: VolumeFile, name: Named): Promise<SourceSeries> {
    const { scans, isSaid } = new ScanMatcher(this.scans).fit(name);
    const fitting = this.scans.length > 1 && isSaid && scans.length > 0 ? scans : this.scans;
    const series = await Promise.all(fitting.map((each) => this.#read(each)));
    const isOnGrid = (each: SourceSeries) => liesOnGrid(result, each);
    const { scan, others } = scanOf(series, isOnGrid, areOfOnePlace);
    if (scan) return scan;
    const [first, second] = others;
    if (!first || !second) throw new VolumeError(`${path.basename(result.path)} is of no scan.`);
    throw new VolumeError(
      `${path.basename(result.path)} fits ${first.name} and ${second.name} equally well, and is put beside none of them: name one of them with 'remote-app convert --like'.`,
    );
  }

  /** Whether names and folders assign several results to the same scans, or none of them to any. */
  areOfOne(names: readonly Named[]): boolean {
    if (this.scans.length < 2) return true;
    const matcher = new ScanMatcher(this.scans);
    const said = names.map((name) => {
      const { scans, isSaid } = matcher.fit(name);
      return isSaid ? scans.map(({ path: each }) => each).join('\0') : null;
    });
    return new Set(said).size === 1;
  }

  /** Like `scanOf`; null if a scan is not a DICOM series, or if it is uncertain which series the result belongs to. */
  async certainScanOf(result: VolumeFile, name: Named): Promise<SourceSeries | null> {
    if (this.scans.some(({ series }) => series === null)) return null;
    return this.scanOf(result, name).catch((error: Error) => {
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
