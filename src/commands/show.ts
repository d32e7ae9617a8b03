import * as Args from '@oclif/core/args';
import * as Flags from '@oclif/core/flags';
import { appFlag, ClientCommand, pathFlag, wholeNumber } from '../cli/command/index.js';
import { loadShowCases, type ShowDocument } from '../cli/show/index.js';
import { app } from '../client/connection/index.js';

export default class Show extends ClientCommand {
  static override summary = 'Look at scans and at what came back of them';
  static override description =
    'Draws the slices with most of the labels, and counts the labels. Finds by names and folders which scans and results ' +
    'belong together. Needs no server.';
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
        'Results, scans and segmentations in any order: files, patterns, directories, DICOM series',
    }),
  };
  static override flags = {
    png: pathFlag({
      helpValue: 'FILE',
      description: "Draw all cases on a contact sheet, a PNG; '-' writes it to stdout",
    }),
    html: pathFlag({
      helpValue: 'FILE',
      description:
        'Write a page to look through all cases and to mark each as pass or fail: one file, without a server',
    }),
    volumes: Flags.boolean({
      dependsOn: ['html'],
      description: 'Put the volumes themselves into the page, for a few cases: they can be turned and zoomed',
    }),
    force: Flags.boolean({ description: 'Replace a file that is there already' }),
    slices: wholeNumber({
      helpValue: 'N',
      min: 1,
      max: 50,
      description: 'Slices of each plane [default: 5 on a sheet, 7 on a page]',
    }),
    frame: wholeNumber({
      helpValue: 'N',
      default: 1,
      min: 1,
      description: 'Which volume of a file that holds several',
    }),
    labels: pathFlag({
      helpValue: 'FILE',
      description: 'Names of labels: an app.json, or a JSON object from values to names',
    }),
    app: { ...appFlag, description: 'App whose server is asked for the names of labels' },
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
