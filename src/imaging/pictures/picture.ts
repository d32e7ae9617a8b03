import type { VolumeFile } from '@remote-app/volumes';
import type { ShownLabel } from '../../client/case/index.js';

/** The three anatomical planes. */
export type PlaneName = 'axial' | 'coronal' | 'sagittal';

/** A colour, red, green and blue from 0 to 255. */
export type Colour = readonly [red: number, green: number, blue: number];

/** A label of a segmentation, as it is drawn. Its name is from the app's terminology or the file, otherwise `label 3`. */
export interface DrawnLabel extends ShownLabel {
  /** Its place in `SliceView.labels`: 1 for the first. */
  readonly index: number;
  readonly colour: Colour;
}

/**
 * One slice, ready to be drawn: pixels are square, their side is `CaseView.pixel` mm, and the orientation is radiological
 * (the patient's right is on the left).
 */
export interface SliceView {
  /** Position along the plane's normal, in mm: to the right, to the front or upwards. */
  readonly position: number;
  readonly width: number;
  readonly height: number;
  /** Brightness, width x height; or red, green and blue of each pixel for a volume in colour. */
  readonly pixels: Uint8Array;
  readonly isColour: boolean;
  /** Indices of labels, width x height; null if there is no segmentation. */
  readonly labels: Uint8Array | null;
}

/** What is written at the edges of all slices of a plane: `R`, `L`, `A`, `P`, `S`, `I`. */
export interface Marks {
  readonly left: string;
  readonly right: string;
  readonly top: string;
  readonly bottom: string;
}

/** The slices shown of one plane, in the order of their positions. */
export interface PlaneView {
  readonly name: PlaneName;
  readonly marks: Marks;
  readonly slices: readonly SliceView[];
  /** Index of the slice with most label content, or of the middle one if there are no labels. */
  readonly best: number;
}

/** A scan or a segmentation or both, ready to be drawn. */
export interface CaseView {
  /** The name of the case, after its scan or result. */
  readonly name: string;
  /** Pixel size of all slices, in mm. */
  readonly pixel: number;
  /** Axial, coronal, sagittal. */
  readonly planes: readonly [PlaneView, PlaneView, PlaneView];
  readonly labels: readonly DrawnLabel[];
  /** The values shown as black and white; null for a volume in colour. */
  readonly window: {
    readonly low: number;
    readonly high: number;
    /** The unit, if the file or the app names it. */
    readonly unit: string | null;
    /** Whether low values are white, and high ones black (MONOCHROME1). */
    readonly isInverted?: boolean;
  } | null;
  /** Notes for the user: an oblique volume, a mask on another grid, which of several volumes is shown. */
  readonly notes: readonly string[];
}

/** One of the pictures of a case, such as a segmentation on its scan. */
export interface LayerView {
  readonly name: string;
  readonly view: CaseView;
  readonly scan: VolumeFile | null;
  readonly mask: VolumeFile | null;
}

/** A case of a sheet or a page. */
export interface DrawnCase {
  readonly name: string;
  /** Empty if there is nothing to draw. */
  readonly layers: readonly LayerView[];
  readonly notes: readonly string[];
  /** The case's status in the cohort's table, `done` or `failed`; null if there is no table beside the result. */
  readonly status: string | null;
}

/** A picture in memory: red, green and blue of each pixel, rows from the top. */
export interface Picture {
  readonly width: number;
  readonly height: number;
  readonly pixels: Uint8Array;
}
