import * as Args from '@oclif/core/args';
import * as Flags from '@oclif/core/flags';
import { type AppsSummary, refreshApps, showApps } from '../cli/apps/index.js';
import { ClientCommand, pathFlag } from '../cli/command/index.js';

export default class Apps extends ClientCommand {
  static override summary = "List the server's apps, or describe one";
  static override description =
    'Without an argument, lists the app ids that --app accepts. With an app, shows what it needs and what it can ' +
    'do.';
  static override examples = [
    '<%= config.bin %> apps',
    '<%= config.bin %> apps VBoussot/ImpactSynth:MR',
    '<%= config.bin %> apps tissue --config ./tissue-config',
    '<%= config.bin %> apps --refresh',
  ];
  static override args = { app: Args.string({ ignoreStdin: true, description: 'Id of an app' }) };
  static override flags = {
    config: pathFlag({
      helpValue: 'DIR',
      description: "Download the app's configuration files to this directory",
    }),
    force: Flags.boolean({
      dependsOn: ['config'],
      description: 'Write into the directory even if it already contains files',
    }),
    refresh: Flags.boolean({
      default: false,
      description: "Ask the server to check its apps' repositories for new commits",
    }),
  };

  async run(): Promise<AppsSummary> {
    const { args, flags } = await this.parse(Apps);
    const connection = await this.connect(flags);
    const reporter = await this.reporter();
    if (flags.refresh) {
      const refreshed = await refreshApps(connection, reporter);
      if (!args.app && flags.config === undefined) {
        await this.print(refreshed.lines);
        return refreshed.summary;
      }
    }
    const shown = await showApps(connection, args.app, flags, this.io, reporter);
    await this.print(shown.lines);
    return shown.summary;
  }
}
