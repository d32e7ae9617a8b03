import type { Command, Config, Interfaces } from '@oclif/core';
import { CommandHelp, Help } from '@oclif/core/help';
import { type CommandIo, ioOf } from '../cli/terminal/index.js';

/**
 * The commands by group, as in the help and the documentation, with those that users need first at the top. A topic stands for
 * its commands.
 */
export const commandGroups: Readonly<Record<string, readonly string[]>> = {
  'Run an app': ['infer', 'evaluate', 'uncertainty', 'pipeline', 'fine-tune', 'inputs', 'show', 'convert'],
  Jobs: ['jobs', 'status', 'logs', 'wait', 'result', 'cite', 'retry', 'kill', 'rm'],
  'Server and apps': ['login', 'logout', 'health', 'gpus', 'forward', 'apps', 'init', 'check', 'completion'],
  Admin: ['serve', 'token', 'usage', 'drain'],
};

/** Groups of flags that every command has. They come last. */
const shared = ['SERVER', 'GLOBAL'];

/** The help of one command: examples to copy come first, and the usage line does not repeat the flags. */
class ExamplesFirst extends CommandHelp {
  protected override defaultUsage(): string {
    const words = Object.values(this.command.args ?? {}).map((arg) => {
      const word = arg.name.toUpperCase() + (arg.multiple ? '...' : '');
      return arg.required ? word : `[${word}]`;
    });
    return [this.command.id, ...words, '[FLAG...]'].join(' ');
  }

  protected override groupFlags(flags: Command.Flag.Any[]): ReturnType<CommandHelp['groupFlags']> {
    const { flagGroups, mainFlags } = super.groupFlags(flags);
    const names = Object.keys(flagGroups).sort((one, other) => shared.indexOf(one) - shared.indexOf(other));
    return {
      mainFlags,
      flagGroups: Object.fromEntries(names.map((name) => [name, flagGroups[name] ?? []])),
    };
  }

  override renderList(...[rows, options]: Parameters<CommandHelp['renderList']>): string {
    const list = super.renderList(rows, options);
    // oclif trims the list, which moves a first flag without a letter out of its column. A list that is too narrow is not
    // arranged in columns.
    const [indent = ''] = /^ */.exec(rows[0]?.[0] ?? '') ?? [];
    return /^\S+ {2}/.test(list) ? indent + list : list;
  }

  protected override sections(): ReturnType<CommandHelp['sections']> {
    const order = ['EXAMPLES', 'DESCRIPTION', 'USAGE'];
    const place = ({ header }: { header: string }) =>
      order.includes(header) ? order.indexOf(header) : order.length;
    return super.sections().sort((one, other) => place(one) - place(other));
  }
}

/** The help of the program, with the commands in groups. */
export class GroupedHelp extends Help {
  protected override CommandHelpClass = ExamplesFirst;
  readonly #io: CommandIo;
  readonly #lines: string[] = [];

  constructor(config: Config, options?: Partial<Interfaces.HelpOptions>) {
    super(config, options);
    this.#io = ioOf(config);
  }

  override async showHelp(args: string[]): Promise<void> {
    await super.showHelp(args);
    const text = `${this.#lines.splice(0).join('\n')}\n`;
    await this.#io.writeOut(text);
  }

  protected override log(...lines: string[]): void {
    this.#lines.push(lines.join(' '));
  }

  protected override async showRootHelp(): Promise<void> {
    const topics = this.sortedTopics.map(({ name, description = '' }) => [name, description] as const);
    const commands = this.sortedCommands.map(({ id, summary = '' }) => [id, summary] as const);
    const summaries = new Map([...topics, ...commands]);
    const sections = Object.entries(commandGroups).map(([title, names]) => {
      const rows = names.flatMap((name): [string, string][] => {
        const summary = summaries.get(name);
        return summary === undefined ? [] : [[name, summary]];
      });
      return this.section(title.toUpperCase(), this.renderList(rows, { indentation: 2, spacer: '\n' }));
    });
    this.log(`${[this.formatRoot(), ...sections].join('\n\n')}\n`);
  }
}
