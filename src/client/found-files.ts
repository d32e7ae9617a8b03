import path from 'node:path';
import type { ListedFile } from '../archive/index.js';
import { type Field, oneLine, quoteName } from '../contract/index.js';

/** Images that form one case: a DICOM series, one file with several frames, or one projection. */
export interface Series {
  /** The directory that contains all its files, directly or below. */
  readonly path: string;
  /** Whether the series is a single file, which is sent unchanged; other series are sent as a directory. */
  readonly isFile: boolean;
  /** The files as the app gets them, in one directory. */
  readonly files: readonly ListedFile[];
  /** Indices into `files`, in slice order, or by instance number if the slices have no position. */
  readonly order: readonly number[];
  /** SeriesNumber; null if there is none. */
  readonly number: number | null;
  /** SeriesDescription; empty if there is none. */
  readonly description: string;
  /** `CT`, `MR`; empty if it is not given. */
  readonly modality: string;
  /** PatientID, otherwise PatientName; empty if neither is given. */
  readonly patient: string;
  /** The patient, if the directory contains series of several people; empty otherwise. */
  readonly person: string;
  readonly images: number;
  /** Columns, rows, and number of images or frames. */
  readonly size: readonly number[];
  readonly plane: 'axial' | 'coronal' | 'sagittal' | 'oblique' | null;
  /** What the user should know before the series is sent, as ends of sentences that begin with the series. */
  readonly remarks: readonly string[];
}

/** One volume to send: a file, or the files of a directory that are sent together (a DICOM series, a Zarr store). */
export type Unit = {
  readonly path: string;
  /** The name of its format; null if the format is unknown. */
  readonly format: string | null;
  /** The directory, as typed, below which the volume was found; absent if the file itself was named. */
  readonly base?: string;
  /** Why the volume cannot be sent although other cases can, as the continuation of a sentence that begins with its path. */
  readonly fault?: string;
  /** What programs that read the volume have to guess, as ends of sentences that begin with its name. */
  readonly remarks?: readonly string[];
} & (
  | {
      readonly kind: 'file';
      readonly size: number;
      /** The series that a DICOM file in a directory belongs to. */
      readonly series?: Series;
      /** Whether a path on the command line names this file itself. */
      readonly isNamed?: boolean;
      /** The real path of the named directory, if the file was found below one. */
      readonly root?: string;
      /** Why the file is sent only if a header refers to it: it is a link, and its content is not recognised. */
      readonly doubt?: string;
    }
  | { readonly kind: 'store'; readonly files: readonly ListedFile[] }
  | {
      readonly kind: 'series';
      readonly files: readonly ListedFile[];
      readonly series: Series;
      /** The name that it should have if its directory holds several series. */
      readonly wanted: string;
    }
);

/** A volume, with the name under which the app gets it. */
export type NamedUnit = Unit & {
  readonly name: string;
  /** Whether it contains the voxels for another file of its group, which is its header. */
  readonly isHalf: boolean;
  /** Paths of the headers whose voxels it contains. */
  readonly headers: readonly string[];
};

/** The data set for a fine-tuning: the files of a directory, or an existing zip archive, sent unchanged. */
export type NamedDataSet = {
  readonly path: string;
  /** The name of the archive that is sent. */
  readonly name: string;
} & (
  | {
      /** Files, and empty directories. */
      readonly files: readonly ListedFile[];
    }
  | { readonly files: null; readonly size: number }
);

/** A volume of a group: one unit, or a header and the files with its voxels. */
export type Volume = readonly NamedUnit[];

/** A path that cannot be sent, and a sentence that says why. */
export interface Refused {
  readonly path: string;
  readonly sentence: string;
}

/** What a submission sends, before anything is packed. */
export interface FoundFiles {
  readonly volumes: readonly { readonly field: Field; readonly groups: readonly (readonly NamedUnit[])[] }[];
  readonly dataSet: { readonly field: Field; readonly set: NamedDataSet } | null;
  /** The cases into which the volumes are divided, if each is sent separately; otherwise empty. */
  readonly cases: readonly FoundCase[];
  /** The names of cases that are left out, because they lack a file. */
  readonly omitted: readonly string[];
  /** Notes for the user on what is sent, renamed and left out, as sentences without a full stop. */
  readonly notes: readonly string[];
  /** Files beside volumes, which are not volumes themselves and are not sent. */
  readonly skipped: readonly string[];
  /** Copies of images that are sent. */
  readonly copies: readonly string[];
  /** Paths in Zarr stores that are not part of the store, and are not sent. */
  readonly strays: readonly string[];
  /** Links that lead out of the named directory, but are followed because they lead to volumes. */
  readonly followed: readonly { readonly path: string; readonly target: string }[];
  /** DICOM objects without an image, such as a plan, which are not sent. The modality is `of an unknown kind` if it is not given. */
  readonly objects: readonly { readonly path: string; readonly modality: string }[];
  /** Paths that cannot be sent; filled only with `listsRefused`. */
  readonly refused: readonly Refused[];
}

/** One of several cases: a volume, with the files of the other groups that belong to it. */
export interface FoundCase {
  /** Its path below the named directory, with slashes, or its BIDS entities: `A/t1`, `sub-01_ses-1_T1w` (case-names.ts). */
  readonly name: string;
  /** The labels of `sub-` and `ses-` in the paths of its files, as in BIDS; null without one. */
  readonly subject: string | null;
  readonly session: string | null;
  /** The files of this case only. */
  readonly files: FoundFiles;
  /** Why the case cannot be sent, as a sentence that names the file; null if it can. */
  readonly fault: string | null;
}

/** The DICOM series of a unit; undefined for other formats. */
export const seriesOf = (unit: Unit): Series | undefined => (unit.kind === 'store' ? undefined : unit.series);

/** Remarks on a case's volumes that should be shown with its result, as sentences without a full stop. */
export const remarksOn = ({ volumes }: Pick<FoundFiles, 'volumes'>): string[] =>
  volumes.flatMap(({ groups }) =>
    groups
      .flat()
      .flatMap((unit) =>
        [...(seriesOf(unit)?.remarks ?? []), ...(unit.remarks ?? [])].map((remark) =>
          oneLine(`${quoteName(unit.name)} ${remark}`),
        ),
      ),
  );

/** The last label of a BIDS entity in a path: `01` for `sub-01/anat/sub-01_T1w.nii.gz`. */
export const labelOf = (file: string, entity: string): string | null =>
  [...file.matchAll(new RegExp(`(?:^|[/\\\\_])${entity}-([\\p{L}\\p{N}+]+)`, 'gu'))].at(-1)?.[1] ?? null;

/** The volumes of a group, in the order of its units. */
export function volumesOf(units: readonly NamedUnit[]): Volume[] {
  const halves = new Map<string, NamedUnit[]>();
  for (const unit of units) {
    for (const header of unit.headers) halves.set(header, [...(halves.get(header) ?? []), unit]);
  }
  return units.filter(({ isHalf }) => !isHalf).map((unit) => [unit, ...(halves.get(unit.path) ?? [])]);
}

/** The files of a unit, with their names inside it; for a single file, the unit's own name. */
export function filesOfUnit(
  unit: NamedUnit,
): readonly { readonly name: string; readonly path: string; readonly size: number | undefined }[] {
  if (unit.kind === 'file') return [{ name: unit.name, path: unit.path, size: unit.size }];
  return unit.files
    .filter(({ name }) => !name.endsWith('/'))
    .map(({ name, path: file, size }) => ({ name: path.posix.join(unit.name, name), path: file, size }));
}
