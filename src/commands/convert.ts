import * as Args from '@oclif/core/args';
import * as Flags from '@oclif/core/flags';
import { BaseCommand, pathFlag } from '../cli/command/index.js';
import { type ConvertDocument, convert } from '../cli/convert/index.js';
import { resultFormats } from '../client/result-formats.js';

export default class Convert extends BaseCommand {
  static override summary = 'Convert a result for viewers: DICOM SEG, RTSTRUCT, 3D Slicer, NIfTI';
  static override description =
    'Adds a label map to the study of its scan, with label names and colours from the record beside it or from ' +
    '--labels. A directory of masks, one per structure, becomes one file with named segments. Needs no server.';
  static override examples = [
    '<%= config.bin %> convert Output/mask.nii.gz --like ./dicom --as dicom-seg -o seg.dcm',
    '<%= config.bin %> convert Output/segmentations --like ./dicom --as dicom-seg',
    "<%= config.bin %> convert mask.nii.gz --like ./dicom --as rtstruct --labels '1=liver,2=tumour'",
  ];
  static override args = {
    file: Args.string({
      required: true,
      ignoreStdin: true,
      description: 'A label map or other volume, or a directory of masks',
    }),
  };
  static override flags = {
    as: Flags.option({ options: resultFormats, multiple: true, multipleNonGreedy: true, required: true })({
      description:
        'Format to write (repeatable): a DICOM segmentation (dicom-seg; dicom-labelmap has all labels in one frame), ' +
        'contours (rtstruct), a 3D Slicer segmentation (nrrd), NIfTI (nifti), or a derived series of an intensity ' +
        'image (dicom)',
    }),
    like: pathFlag({
      helpValue: 'PATH',
      description: 'The scan it belongs to, as a DICOM series; required for DICOM formats',
    }),
    output: pathFlag({
      char: 'o',
      helpValue: 'FILE',
      description: "File to write [default: beside the input, with the format's extension]",
    }),
    labels: pathFlag({
      helpValue: 'NAMES',
      description: "Label names: '1=liver,2=tumour', an app.json, or a JSON object that maps values to names",
    }),
    strict: Flags.boolean({
      description:
        "Refuse a label map whose grid differs from its scan's; by default it is resampled with the nearest labels",
    }),
    force: Flags.boolean({ description: 'Replace an existing file' }),
  };

  async run(): Promise<ConvertDocument> {
    const { args, flags } = await this.parse(Convert);
    const options = {
      formats: [...new Set(flags.as)],
      like: flags.like ?? null,
      output: flags.output ?? null,
      labels: flags.labels ?? null,
      isStrict: flags.strict,
      mayReplace: flags.force,
      version: this.config.version,
    };
    return convert(args.file, options, this.io, this.jsonEnabled());
  }
}
