import path from 'node:path';
import { BaseCommand } from '../cli/base-command.js';
import { serveFlags } from '../cli/serve/flags.js';
import { serverSettings } from '../cli/serve/settings.js';
import { tokenVariable } from '../contract/defaults.js';

export default class Serve extends BaseCommand {
  static override summary = 'Serve apps as remote jobs';
  static override description =
    'Boots the job service. The apps named with --apps, and no others, can be run by whoever holds the token. ' +
    'Traffic is plain HTTP: put a reverse proxy with TLS in front before other machines reach it.';
  static override examples = [
    '<%= config.bin %> <%= command.id %> --apps ./examples/apps/tissue',
    `${tokenVariable}=$(cat token) <%= config.bin %> <%= command.id %> --host 0.0.0.0 --apps ./apps --data-dir /srv/jobs`,
  ];
  static override enableJsonFlag = false;

  static override flags = serveFlags;

  async run(): Promise<void> {
    const { flags } = await this.parse(Serve);
    const { serveUntilStopped } = await import('../cli/serve/serve-until-stopped.js');
    const settings = serverSettings(flags, path.join(this.config.dataDir, 'serve'), process.env);
    const logged = { format: flags['log-format'], level: flags['log-level'] };
    await serveUntilStopped(settings, { isOpenAsked: flags.auth === 'off', logged });
  }
}
