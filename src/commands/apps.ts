import { Args, Flags } from '@oclif/core';
import type { AppsSummary } from '../cli/apps/show-apps.js';
import { ClientCommand } from '../cli/client-command.js';

export default class Apps extends ClientCommand {
  static override summary = 'List the apps of the server, or describe one';
  static override description =
    'Without an app, the identifiers that --app takes; with one, what it needs and what it can do.';
  static override examples = [
    '<%= config.bin %> apps',
    '<%= config.bin %> apps VBoussot/ImpactSynth:MR',
    '<%= config.bin %> apps tissue --config ./tissue-config',
  ];
  static override args = { app: Args.string({ ignoreStdin: true, description: 'Identifier of an app' }) };
  static override flags = {
    config: Flags.string({
      helpValue: 'DIR',
      description: "Download the app's configuration files to this directory",
    }),
  };

  async run(): Promise<AppsSummary> {
    const { args, flags } = await this.parse(Apps);
    const { showApps } = await import('../cli/apps/show-apps.js');
    const shown = await showApps(await this.connect(flags), args.app, flags.config, await this.reporter());
    await this.print(shown.lines);
    return shown.summary;
  }
}
