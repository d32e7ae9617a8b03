import * as Args from '@oclif/core/args';
import * as Flags from '@oclif/core/flags';
import { firstSteps, type Language, languageNames, type NewApp, writeNewApp } from '../cli/apps/index.js';
import { BaseCommand } from '../cli/command/index.js';

export default class Init extends BaseCommand {
  static override summary = 'Write a new app that runs as it is';
  static override description =
    'Makes a directory with an app.json, a program and a README. The program copies its input until you put your model in its ' +
    'place. Needs no server.';
  static override examples = [
    '<%= config.bin %> init my-app',
    "<%= config.bin %> init my-app --language shell --name 'My model'",
    '<%= config.bin %> init my-app --resident',
  ];
  static override args = {
    directory: Args.string({
      required: true,
      ignoreStdin: true,
      description: 'Directory of the app, new or empty',
    }),
  };
  static override flags = {
    language: Flags.option({
      options: languageNames,
      default: 'python' as Language,
      description: 'Language of the program',
    })(),
    resident: Flags.boolean({
      default: false,
      description: 'Write an app that is started once and loads its model once (python or javascript)',
    }),
    name: Flags.string({
      helpValue: 'NAME',
      description: 'Display name of the app; by default the name of the directory',
    }),
  };

  async run(): Promise<NewApp> {
    const { args, flags } = await this.parse(Init);
    const app = await writeNewApp({ target: args.directory, ...flags }, this.config.root);
    if (this.jsonEnabled()) return app;
    const { alone, serve, infer } = firstSteps(app, this.config.bin);
    const places = app.resident ? "'load' and 'predict'" : "'predict'";
    const lines = [
      `Wrote ${app.files.join(', ')} in ${app.directory}`,
      `Your model goes into ${places} of ${app.files[1]}. Until then the app copies what it is given:`,
      `  ${alone}`,
      `  ${serve}          # then, in another terminal:`,
      `  ${infer}`,
    ];
    await this.io.writeOut(`${lines.join('\n')}\n`);
    return app;
  }
}
