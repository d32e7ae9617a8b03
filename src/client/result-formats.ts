/** What a volume of a result is converted to, as `--as` names it. */
export const resultFormats = ['dicom-seg', 'dicom-labelmap', 'rtstruct', 'nrrd', 'nifti', 'dicom'] as const;
export type ResultFormat = (typeof resultFormats)[number];

/** Formats that lie in the study of a DICOM series. */
export const ofStudy: ReadonlySet<ResultFormat> = new Set([
  'dicom-seg',
  'dicom-labelmap',
  'rtstruct',
  'dicom',
]);

/** Formats that name segments, so that they hold several masks of single ones. */
export const ofSegments: ReadonlySet<ResultFormat> = new Set([
  'dicom-seg',
  'dicom-labelmap',
  'rtstruct',
  'nrrd',
]);
