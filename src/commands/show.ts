import * as Args from '@oclif/core/args';
import * as Flags from '@oclif/core/flags';
import { appFlag, ClientCommand, pathFlag, wholeNumber } from '../cli/command/index.js';
import { loadShowCases, type ShowDocument } from '../cli/show/index.js';
import { app } from '../client/connection/index.js';

export default class Show extends ClientCommand {
  static override summary = 'Look at scans and results';
  static override description =
    'Draws the slices that show most of the labels, and lists the labels. Matches scans and results by their ' +
    'names and folders. Needs no server.';
  static override examples = [
    '<%= config.bin %> show ./Output',
    '<%= config.bin %> show scan.nii.gz mask.nii.gz',
    '<%= config.bin %> show ./scans ./Output --png sheet.png',
    '<%= config.bin %> show ./scans ./Output --html qc.html',
    '<%= config.bin %> show ./Output --json',
  ];
  static override args = {
    paths: Args.string({
      multiple: true,
      ignoreStdin: true,
      description:
        'Results, scans and segmentations, in any order: files, patterns, directories or DICOM series',
    }),
  };
  static override flags = {
    png: pathFlag({
      helpValue: 'FILE',
      description: "Draw all cases on a contact sheet, as a PNG; '-' writes it to stdout",
    }),
    html: pathFlag({
      helpValue: 'FILE',
      description: 'Write a self-contained web page for reviewing the cases and marking each as pass or fail',
    }),
    volumes: Flags.boolean({
      dependsOn: ['html'],
      description: 'Include the volumes in the page, to rotate and zoom them; for a few cases',
    }),
    force: Flags.boolean({ description: 'Replace an existing file' }),
    slices: wholeNumber({
      helpValue: 'N',
      min: 1,
      max: 50,
      description: 'Number of slices per plane [default: 5 on a sheet, 7 on a page]',
    }),
    frame: wholeNumber({
      helpValue: 'N',
      default: 1,
      min: 1,
      description: 'Which volume of a file that contains several',
    }),
    labels: pathFlag({
      helpValue: 'FILE',
      description: 'Label names: an app.json, or a JSON object that maps values to names',
    }),
    app: { ...appFlag, description: 'App to ask the server about for label names' },
  };

  async run(): Promise<ShowDocument> {
    const { args, flags } = await this.parse(Show);
    const { namesOfApp, showCases } = await loadShowCases();
    const reporter = await this.reporter();
    const settings = flags.app === undefined ? null : await this.settings(flags);
    const ask = async () => app(await this.connect(flags), flags.app ?? '');
    const isAsked = flags.labels === undefined && settings?.isDefault === false;
    const labels = flags.labels ?? (isAsked ? await namesOfApp(ask, reporter) : {});
    const { png = null, html = null, volumes, force, slices = null, frame } = flags;
    const shown = { png, html, volumes, force, slices, frame, labels };
    const how = { json: this.jsonEnabled(), io: this.io, reporter, signal: this.interruption };
    return showCases(args.paths ?? [], { ...shown, ...how });
  }
}
