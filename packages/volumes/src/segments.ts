import type { DicomElement } from './dicom-write.js';
import type { Geometry } from './volume.js';

/** A segment of a label map: the value of its voxels, what it is called and drawn in, and its code where the app says one. */
export interface Segment {
  readonly value: number;
  readonly name: string;
  /** `#rrggbb`; null if nothing says it. */
  readonly color: string | null;
  /** A code of SNOMED CT. */
  readonly snomed: { readonly code: string; readonly meaning: string } | null;
}

/** An image of a series: a file, or a frame of one. */
export interface SourceImage {
  readonly file: string;
  readonly sopClass: string;
  readonly sopInstance: string;
  /** The number of the frame in its file, from 1; null for a file of one image. */
  readonly frame: number | null;
  /** Of the centre of its first pixel, in mm to the left, to the back and upwards (ImagePositionPatient). */
  readonly position: readonly number[];
}

/**
 * What a result is put beside: the DICOM series as it lies on this machine, with what it says of its patient and study. Its
 * grid is that of the volume that `openSeries` reads from the same files.
 */
export interface SourceSeries extends Geometry {
  /** What messages call it. */
  readonly name: string;
  readonly files: readonly string[];
  readonly studyUid: string;
  readonly seriesUid: string;
  /** Made of the series' UID where the files have none. */
  readonly frameOfReferenceUid: string;
  readonly seriesNumber: number | null;
  readonly modality: string | null;
  /** Directions of the rows and columns of all images (ImageOrientationPatient). */
  readonly orientation: readonly number[];
  /** Millimetres between rows, and between columns (PixelSpacing). */
  readonly pixelSpacing: readonly number[];
  readonly thickness: number | null;
  /** The images by slice k of the grid; where several are of one place (time points), in their order. */
  readonly slices: readonly (readonly SourceImage[])[];
  /** Attributes of the patient, the study and the frame of reference, with the bytes of the files, for `patientAndStudy`. */
  readonly identity: readonly DicomElement[];
  /** SpecificCharacterSet of these bytes; null for the plain one. */
  readonly characterSet: string | null;
  /** What the files say of lossy compression; empty if they never were compressed so. */
  readonly lossy: readonly DicomElement[];
}

/** What made a result, as the objects say that are written of it. */
export interface Maker {
  /** The app, and its version; null where nobody says it. */
  readonly app: string | null;
  readonly appVersion: string | null;
  /** The version of this program. */
  readonly version: string;
  /**
   * What tells the result from others of the same app and series, such as the name of its file: what is made again under the
   * same name becomes the same series.
   */
  readonly name: string;
  readonly madeAt: Date;
}

/** An object that was written. */
export interface WrittenObject {
  readonly seriesUid: string;
  readonly instanceUid: string;
  /** Whether its voxels are those that were given, and were not looked up at other places. */
  readonly isExact: boolean;
  /** Whether its slices were put on the images of the same number, since what made them placed those of a tilted gantry wrongly. */
  readonly isByNumber: boolean;
  /** The labels that it has. */
  readonly segments: readonly Segment[];
  /** Its texts that lost characters, because its character set does not have them. */
  readonly altered: readonly string[];
}
