import * as Args from '@oclif/core/args';
import * as Flags from '@oclif/core/flags';
import { BaseCommand, pathFlag } from '../cli/command/index.js';
import { type ConvertDocument, convert } from '../cli/convert/index.js';
import { resultFormats } from '../client/result-formats.js';

export default class Convert extends BaseCommand {
  static override summary = 'Convert a result for viewers: DICOM SEG, RTSTRUCT, 3D Slicer, NIfTI';
  static override description =
    'Puts a label map into the study of its scan, with the names and colours of its labels: those of the record beside it, or of --labels. ' +
    'A directory of masks, one for each structure, becomes one file with named segments. Needs no server.';
  static override examples = [
    '<%= config.bin %> convert Output/mask.nii.gz --like ./dicom --as dicom-seg -o seg.dcm',
    '<%= config.bin %> convert Output/segmentations --like ./dicom --as dicom-seg',
    "<%= config.bin %> convert mask.nii.gz --like ./dicom --as rtstruct --labels '1=liver,2=tumour'",
  ];
  static override args = {
    file: Args.string({
      required: true,
      ignoreStdin: true,
      description: 'The label map, or another volume; or a directory of masks',
    }),
  };
  static override flags = {
    as: Flags.option({ options: resultFormats, multiple: true, multipleNonGreedy: true, required: true })({
      description:
        'Format to write, several times for several: a DICOM segmentation (dicom-seg, or with all labels in one frame dicom-labelmap), ' +
        'contours (rtstruct), a segmentation of 3D Slicer (nrrd), nifti, or of intensities a derived series (dicom)',
    }),
    like: pathFlag({
      helpValue: 'PATH',
      description: 'The scan that it is of: a DICOM series. DICOM formats need it',
    }),
    output: pathFlag({
      char: 'o',
      helpValue: 'FILE',
      description: 'File to write [default: beside the given one, with the ending of the format]',
    }),
    labels: pathFlag({
      helpValue: 'NAMES',
      description: "Names of labels: '1=liver,2=tumour', an app.json, or a JSON object from values to names",
    }),
    strict: Flags.boolean({
      description: 'Refuse a label map on another grid than its scan; otherwise the nearest labels are taken',
    }),
    force: Flags.boolean({ description: 'Replace a file that is there already' }),
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
