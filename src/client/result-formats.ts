/** The formats of converted results, as `--as` names them. */
export const resultFormats = ['dicom-seg', 'dicom-labelmap', 'rtstruct', 'nrrd', 'nifti', 'dicom'] as const;
export type ResultFormat = (typeof resultFormats)[number];

/** Formats that become part of the study of a DICOM series. */
export const ofStudy: ReadonlySet<ResultFormat> = new Set([
  'dicom-seg',
  'dicom-labelmap',
  'rtstruct',
  'dicom',
]);

/** Formats with named segments, which can combine several single-label masks. */
export const ofSegments: ReadonlySet<ResultFormat> = new Set([
  'dicom-seg',
  'dicom-labelmap',
  'rtstruct',
  'nrrd',
]);
