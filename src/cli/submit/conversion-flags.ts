import type { Interfaces } from '@oclif/core';
import * as Flags from '@oclif/core/flags';
import type { ConversionRequest } from '../../client/case/index.js';
import { resultFormats } from '../../client/result-formats.js';

/** What results are converted to. */
export const conversionFlags = {
  as: Flags.option({ options: resultFormats, multiple: true, multipleNonGreedy: true })({
    helpGroup: 'JOB',
    exclusive: ['detach'],
    description:
      'Also convert what comes back for viewers, beside the original; several times for several formats: a DICOM segmentation ' +
      '(dicom-seg, or with all labels in one frame dicom-labelmap) or contours (rtstruct) in the study of the scan, ' +
      'a segmentation of 3D Slicer (nrrd), nifti, or of intensities a derived series (dicom)',
  }),
  strict: Flags.boolean({
    helpGroup: 'JOB',
    dependsOn: ['as'],
    description:
      'With --as, refuse a label map on another grid than its scan; otherwise the nearest labels are taken',
  }),
};

export type ConversionFlags = Partial<Interfaces.InferredFlags<typeof conversionFlags>>;

/** What was asked for with these flags. */
export const conversionOf = ({ as = [], strict }: ConversionFlags): ConversionRequest | undefined =>
  as.length === 0 ? undefined : { formats: [...new Set(as)], isStrict: strict ?? false };
