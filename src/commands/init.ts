import * as Args from '@oclif/core/args';
import * as Flags from '@oclif/core/flags';
import {
  firstSteps,
  initApp,
  type Language,
  languageNames,
  modelKinds,
  type NewApp,
} from '../cli/apps/index.js';
import { BaseCommand, pathFlag } from '../cli/command/index.js';

export default class Init extends BaseCommand {
  static override summary = 'Create a new app that runs right away';
  static override description =
    'Creates a directory with an app.json, a program and a README. The program copies its input until you put ' +
    'your model in its place; with --from, it runs the trained network that you name. Needs no server.';
  static override examples = [
    '<%= config.bin %> init my-app',
    "<%= config.bin %> init my-app --language shell --name 'My model'",
    '<%= config.bin %> init my-app --resident',
    '<%= config.bin %> init liver --from nnunet ./Dataset003_Liver/nnUNetTrainer__nnUNetPlans__3d_fullres --venv',
    '<%= config.bin %> init spleen --from monai-bundle ./spleen_ct_segmentation --venv',
    '<%= config.bin %> init organs --from totalsegmentator --task total --venv',
  ];
  static override args = {
    directory: Args.string({
      required: true,
      ignoreStdin: true,
      description: 'New or empty directory for the app',
    }),
    source: Args.string({
      ignoreStdin: true,
      description: 'With --from: the folder of the trained network, which is not changed',
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
      description: 'Create an app that stays loaded between jobs (python or javascript)',
    }),
    name: Flags.string({
      helpValue: 'NAME',
      description: 'Display name of the app [default: the name of the directory]',
    }),
    from: Flags.option({
      options: modelKinds,
      multiple: false,
      helpValue: 'KIND',
      description:
        'Run a trained network: nnunet takes a results folder of nnU-Net v2, monai-bundle the folder of a bundle, ' +
        'totalsegmentator a --task of TotalSegmentator',
    })(),
    task: Flags.string({
      dependsOn: ['from'],
      helpValue: 'TASK',
      description: 'TotalSegmentator task, such as total_mr [default: total]',
    }),
    weights: pathFlag({
      dependsOn: ['from'],
      helpValue: 'DIR',
      description:
        "Directory with the task's weights, laid out as TotalSegmentator does [default: ~/.totalsegmentator]; --venv " +
        'downloads missing ones',
    }),
    copy: Flags.boolean({
      dependsOn: ['from'],
      description: 'Copy the weights instead of hard-linking them',
    }),
    venv: Flags.boolean({
      dependsOn: ['from'],
      description: "Also create the app's Python environment, with the packages from its requirements.txt",
    }),
  };

  async run(): Promise<NewApp> {
    const { args, flags } = await this.parse(Init);
    const app = await initApp({ ...args, ...flags }, this.config.root, this.io);
    await this.print(firstSteps(app, flags.venv ?? false, this.config.bin));
    return app;
  }
}
