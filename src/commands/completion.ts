import * as Args from '@oclif/core/args';
import * as Flags from '@oclif/core/flags';
import { appFlag, ClientCommand, connectionFlags } from '../cli/command/index.js';
import {
  completionScript,
  findOffers,
  type Offer,
  type Shell,
  shells,
  type ValueSource,
  valueSources,
  wordsOfFlags,
} from '../cli/completion/index.js';

/** The flags of an unfinished command line that say what its values depend on. */
const askingFlags = { ...connectionFlags, app: appFlag };

/** Longest time for which a shell waits for the server's values, in milliseconds. */
const longestWait = 1000;

export default class Completion extends ClientCommand {
  static override summary = 'Print the script that completes commands in a shell';
  static override description =
    'The Tab key then completes commands, flags, files, and what the server lists: apps with their parameters and checkpoints, jobs, tags and GPUs. The server is taken from the flags typed so far, the environment or the profile.';
  static override examples = [
    '<%= config.bin %> completion bash > ~/.local/share/bash-completion/completions/remote-app',
    'source <(<%= config.bin %> completion zsh)',
    '<%= config.bin %> completion fish > ~/.config/fish/completions/remote-app.fish',
  ];
  static override args = {
    shell: Args.custom<Shell>({
      options: [...shells],
      ignoreStdin: true,
      description: 'The shell that the script is for',
    })(),
  };
  static override baseFlags = Object.fromEntries(
    Object.entries(connectionFlags).map(([name, flag]) => [name, { ...flag, hidden: true }]),
  ) as typeof connectionFlags;
  static override flags = {
    values: Flags.option({
      hidden: true,
      options: valueSources,
      description: 'For the scripts: list values that fit the command line after --',
    })(),
  };

  async run(): Promise<{ readonly script: string } | { readonly values: readonly Offer[] }> {
    const end = this.argv.indexOf('--');
    const [own, words] = end === -1 ? [this.argv, []] : [this.argv.slice(0, end), this.argv.slice(end + 1)];
    const { args, flags } = await this.parse(Completion, own);
    if (flags.values) return { values: await this.#offer(flags.values, words) };
    const script = await completionScript(args.shell, this.config);
    await this.print([script]);
    return { script };
  }

  /** Prints values for a shell. On an error, or after the longest wait, it offers none. */
  async #offer(source: ValueSource, words: readonly string[]): Promise<readonly Offer[]> {
    let giveUp: (none: readonly Offer[]) => void;
    const late = new Promise<readonly Offer[]>((resolve) => {
      giveUp = resolve;
    });
    const connect = async () => {
      const { flags } = await this.parse({ flags: askingFlags }, wordsOfFlags(words, askingFlags));
      const settings = await this.settings(flags);
      const connection = await this.connectTo(settings, flags);
      setTimeout(giveUp, longestWait, []).unref();
      return { connection, app: settings.app };
    };
    const found = findOffers(source, words, connect, this.config.configDir).catch(() => []);
    const offers = await Promise.race([found, late]);
    await this.print(offers.map(({ value, about }) => (about === '' ? value : `${value}\t${about}`)));
    return offers;
  }
}
