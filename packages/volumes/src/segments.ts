import type { DicomElement } from './dicom-write.js';
import type { Geometry } from './volume.js';

/** A segment of a label map: the value of its voxels, its name, colour and code. */
export interface Segment {
  readonly value: number;
  readonly name: string;
  /** `#rrggbb`; null if unknown. */
  readonly color: string | null;
  /** Its code in SNOMED CT; null if unknown. */
  readonly snomed: { readonly code: string; readonly meaning: string } | null;
}

/** An image of a series: a file, or a frame of one. */
export interface SourceImage {
  readonly file: string;
  readonly sopClass: string;
  readonly sopInstance: string;
  /** The frame number in its file, from 1; null for a file with one image. */
  readonly frame: number | null;
  /** The centre of its first pixel in mm, in LPS+ (ImagePositionPatient). */
  readonly position: readonly number[];
}

/** The DICOM series that a result belongs to, with its patient and study. Its grid is that of the volume from `openSeries`. */
export interface SourceSeries extends Geometry {
  /** The name in messages. */
  readonly name: string;
  readonly files: readonly string[];
  readonly studyUid: string;
  readonly seriesUid: string;
  /** Derived from the series' UID where the files have none. */
  readonly frameOfReferenceUid: string;
  readonly seriesNumber: number | null;
  readonly modality: string | null;
  /** Directions of the rows and columns of all images (ImageOrientationPatient). */
  readonly orientation: readonly number[];
  /** Millimetres between rows, and between columns (PixelSpacing). */
  readonly pixelSpacing: readonly number[];
  readonly thickness: number | null;
  /** The images by slice k of the grid; several at one position (time points) are in order. */
  readonly slices: readonly (readonly SourceImage[])[];
  /** Attributes of the patient, the study and the frame of reference, byte for byte. */
  readonly identity: readonly DicomElement[];
  /** SpecificCharacterSet of these bytes; null for the default one. */
  readonly characterSet: string | null;
  /** What the files say about lossy compression: none, or ratio and method. */
  readonly lossy: readonly DicomElement[];
}

/** What made a result, as recorded in the written objects. */
export interface Maker {
  /** The app and its version; null if unknown. */
  readonly app: string | null;
  readonly appVersion: string | null;
  /** The version of this program. */
  readonly version: string;
  /** Distinguishes results of the same app and series, for example by file name. The same name gives the same series. */
  readonly name: string;
  readonly madeAt: Date;
}

/** An object that was written. */
export interface WrittenObject {
  readonly seriesUid: string;
  readonly instanceUid: string;
  /** Whether its voxels are the given ones, rather than the nearest voxels of another grid. */
  readonly isExact: boolean;
  /**
   * Whether slices were matched to images by number, because the program that made them misplaced the slices of a tilted gantry.
   */
  readonly isByNumber: boolean;
  /** The labels that it has. */
  readonly segments: readonly Segment[];
  /** The texts that lost characters which its character set lacks. */
  readonly altered: readonly string[];
}
