import { BaseCommand } from '../cli/command/index.js';
import {
  configuredArguments,
  type LogSettings,
  logLine,
  type ServeFlags,
  serveFlags,
  serverSettings,
  serveUntilStopped,
  showCheck,
} from '../cli/serve/index.js';
import { tokenVariable } from '../contract/index.js';

export default class Serve extends BaseCommand {
  static override summary = 'Serve apps as remote jobs';
  static override description =
    'Starts the job service. Anyone with the token can run the apps named with --apps, and nothing else. Traffic ' +
    'is plain HTTP: before other machines connect to it, put a reverse proxy with TLS in front.';
  static override examples = [
    '<%= config.bin %> <%= command.id %> --apps ./examples/apps/tissue',
    '<%= config.bin %> <%= command.id %> --config /etc/remote-app/serve.yaml --check',
    `${tokenVariable}=$(cat token) <%= config.bin %> <%= command.id %> --host 0.0.0.0 --apps ./apps --data-dir /srv/jobs`,
  ];
  static override enableJsonFlag = false;

  static override flags = serveFlags;

  #logged: LogSettings | null = null;

  /** Uses the format of the log, once it is known, so that a log reader can also parse the last line. */
  protected override tellError(sentence: string, hints: readonly string[]): void {
    if (this.#logged?.format === 'json') this.io.writeErr(`${logLine('error', sentence)}\n`);
    else super.tellError(sentence, hints);
  }

  /** The typed flags, completed by those from the configuration file. */
  async #flags(): Promise<ServeFlags> {
    // Saved because each parse replaces `argv`.
    const typed = this.argv;
    const { flags, raw } = await this.parse(Serve);
    if (flags.config === undefined) return flags;
    const names = new Set(raw.flatMap((token) => (token.type === 'flag' ? [token.flag] : [])));
    const parse = (argv: string[]) => this.parse(Serve, argv);
    const configured = await configuredArguments(flags.config, Serve.flags, names, parse);
    return (await this.parse(Serve, [...configured, ...typed])).flags;
  }

  async run(): Promise<void> {
    const flags = await this.#flags();
    const logged = { format: flags['log-format'], level: flags['log-level'] };
    if (!flags.check) this.#logged = logged;
    const settings = serverSettings(flags, this.config, this.io.env);
    if (flags.check) {
      await showCheck(settings, this.io);
      return;
    }
    await serveUntilStopped(settings, { isOpenAsked: flags.auth === 'off', logged });
  }
}
