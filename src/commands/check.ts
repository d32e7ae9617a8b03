import * as Args from '@oclif/core/args';
import * as Flags from '@oclif/core/flags';
import { BaseCommand, pathFlag } from '../cli/command/index.js';
import { type AppCheck, runTimeFlag, showAppCheck } from '../cli/serve/index.js';

export default class Check extends BaseCommand {
  static override summary = 'Check your own app and try it';
  static override description =
    'Looks for errors in app.json and for missing packages, then runs the app once on a tiny volume: on the CPU, ' +
    'in a temporary directory, under your own account and without a sandbox. Needs no server. Exits with 1 if ' +
    'there is a problem.';
  static override examples = [
    '<%= config.bin %> check my-app',
    '<%= config.bin %> check my-app --no-run --json',
    '<%= config.bin %> check my-app --try',
    '<%= config.bin %> check my-app --time-limit 10m',
    '<%= config.bin %> check my-app --measure --scan ct.nii.gz',
  ];
  static override args = {
    directory: Args.string({ required: true, ignoreStdin: true, description: 'Directory of the app' }),
  };
  static override flags = {
    run: Flags.boolean({ default: true, allowNo: true, description: 'Run the app once on a tiny volume' }),
    try: Flags.boolean({
      description: 'Run it as a server would: in the sandbox, once on each GPU',
    }),
    measure: Flags.boolean({
      description: 'Like --try, and also print what it used, as `resources` for app.json',
    }),
    scan: pathFlag({
      helpValue: 'FILE',
      description: 'Run it on this scan instead of the tiny volume',
    }),
    'time-limit': runTimeFlag({
      default: '60s',
      helpValue: 'TIME',
      description: 'Time limit for a run, such as 30s or 10m',
    }),
  };

  async run(): Promise<AppCheck> {
    const { args, flags } = await this.parse(Check);
    return showAppCheck(args.directory, flags, this.io, this.jsonEnabled());
  }
}
