import * as Args from '@oclif/core/args';
import * as Flags from '@oclif/core/flags';
import { ClientCommand, connectionFlags } from '../cli/command/index.js';
import { findOffers, type Offers, type Shell, scripts } from '../cli/completion/index.js';
import { UsageError } from '../client/errors.js';

/** Maximum wait for the server during completion, in milliseconds. */
const maxWait = 2000;

const shells = Object.keys(scripts) as Shell[];

export default class Completion extends ClientCommand {
  static override summary = 'Print a completion script for a shell';
  static override description =
    'The Tab key then completes commands, flags and files, and the apps and jobs on the server. The server comes ' +
    'from the flags typed so far, the environment or the profile.';
  static override examples = [
    '<%= config.bin %> completion bash > ~/.local/share/bash-completion/completions/remote-app',
    'source <(<%= config.bin %> completion zsh)',
    '<%= config.bin %> completion fish > ~/.config/fish/completions/remote-app.fish',
  ];
  static override args = {
    shell: Args.custom<Shell>({
      options: shells,
      ignoreStdin: true,
      description: 'The shell to complete in',
    })(),
  };
  static override baseFlags = Object.fromEntries(
    Object.entries(connectionFlags).map(([name, flag]) => [name, { ...flag, hidden: true }]),
  ) as typeof connectionFlags;
  static override flags = {
    offers: Flags.boolean({
      hidden: true,
      description: 'For the scripts: list the completions for the command line that follows --',
    }),
  };

  async run(): Promise<{ readonly script: string } | { readonly offers: Offers }> {
    const end = this.argv.indexOf('--');
    const [own, words] = end === -1 ? [this.argv, []] : [this.argv.slice(0, end), this.argv.slice(end + 1)];
    const { args, flags } = await this.parse(Completion, own);
    if (flags.offers) return { offers: await this.#offer(words) };
    if (!args.shell) throw new UsageError(`Name a shell: ${shells.join(', ')}`);
    const script = scripts[args.shell](this.config.bin).trimEnd();
    await this.print([script]);
    return { script };
  }

  /** Prints candidates for a shell. On an error, or when the time is up, there are none. */
  async #offer(words: readonly string[]): Promise<Offers> {
    let giveUp: (none: Offers) => void;
    const late = new Promise<Offers>((resolve) => {
      giveUp = resolve;
    });
    const found = findOffers(words, this.config, async (typed) => {
      const own = typed.flatMap((flag) => (flag.name in connectionFlags ? flag.words : []));
      const { flags } = await this.parse({ flags: connectionFlags }, own);
      const connection = await this.connectTo(await this.settings(flags), flags);
      setTimeout(giveUp, maxWait, []).unref();
      return connection;
    }).catch(() => []);
    const offers = await Promise.race([found, late]);
    await this.print(
      typeof offers === 'string'
        ? [`:${offers}`]
        : offers.map(({ value, about }) => (about === '' ? value : `${value}\t${about}`)),
    );
    return offers;
  }
}
