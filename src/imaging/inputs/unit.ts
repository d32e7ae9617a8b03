import type { ListedFile } from '../../archive/index.js';
import type { Followed } from './leaving.js';
import type { Series } from './series.js';

/** One volume to send: a file, or files of a directory that travel together (a DICOM series, a Zarr store). */
export type Unit = {
  readonly path: string;
  /** The name of its format; null for one that is not known here. */
  readonly format: string | null;
} & (
  | {
      readonly kind: 'file';
      readonly size: number;
      /** Why it cannot be sent, in words that follow its path, where other cases can. */
      readonly fault?: string;
      /** What is known about a DICOM file in a directory. */
      readonly series?: Series;
      /** Whether a path names this file itself. */
      readonly isNamed?: boolean;
      /** The real path of the directory that was named, if it was found below one. */
      readonly root?: string;
      /** Why it is sent only if it has the voxels of a header: a link leads to it, and its content says nothing. */
      readonly doubt?: string;
    }
  | { readonly kind: 'store'; readonly files: readonly ListedFile[] }
  | {
      readonly kind: 'series';
      readonly files: readonly ListedFile[];
      readonly series: Series;
      /** The name that it should have: its directory has others. */
      readonly wanted: string;
    }
);

/** A DICOM object without an image, such as a plan. */
export interface LeftObject {
  readonly path: string;
  /** `RTSTRUCT`, `SR`; `of an unknown kind` if it is not given. */
  readonly modality: string;
}

/** The result of collecting the paths of one group. */
export interface Collected {
  readonly units: readonly Unit[];
  /** Files beside volumes, which are not volumes themselves and are not sent. */
  readonly skipped: readonly string[];
  /** Copies of images that are sent. */
  readonly copies: readonly string[];
  /** Paths in stores that do not belong to them, and are not sent. */
  readonly strays: readonly string[];
  /** Links that were followed out of what was named. */
  readonly followed: readonly Followed[];
  /** DICOM objects beside images, which are not sent. */
  readonly objects: readonly LeftObject[];
  /** Directories of which all files are sent, since none has a format that is known. */
  readonly unknown: readonly string[];
}
