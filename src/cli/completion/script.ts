import type { Command, Interfaces } from '@oclif/core';
import { UsageError } from '../../client/errors.js';
import { type AppBound, type Field, type FieldKind, flagName, operations } from '../../contract/index.js';
import { bashScript } from './bash.js';
import { fishScript } from './fish.js';
import {
  type CompletedArguments,
  type CompletedCommand,
  type CompletedFlag,
  type Shell,
  shells,
  type ValueSource,
  type Values,
} from './kinds.js';
import { zshScript } from './zsh.js';

/** Jobs that a command can do something with; the others take any job. */
const jobsFor: Readonly<Record<string, ValueSource>> = {
  kill: 'active-jobs',
  wait: 'active-jobs',
  rm: 'ended-jobs',
};

const byField: Partial<Readonly<Record<FieldKind, Values>>> = {
  files: 'files',
  archive: 'files',
  gpus: 'gpus',
};

const byFlagName: Readonly<Record<string, Values>> = {
  app: 'apps',
  profile: 'profiles',
  status: 'states',
  tag: 'tags',
};

const byArgument: Readonly<Record<string, Values>> = {
  app: 'apps',
  paths: 'files',
  dir: 'directories',
  directory: 'directories',
};

type Flag = Command.Flag.Cached;

/** The field that belongs to a flag of an operation's command. */
const fieldOf = (command: string, { name }: Flag): Field | undefined =>
  Object.values(operations)
    .find((each) => each.command === command)
    ?.fields.find((each) => flagName(each) === name);

const byBound: Partial<Readonly<Record<AppBound, Values>>> = {
  parameters: 'parameters',
  checkpointNames: 'checkpoints',
};

function valuesOfField({ name, kind, bound }: Field): Values {
  return (bound && byBound[bound]) ?? byField[kind] ?? byFlagName[name] ?? 'anything';
}

/** The field of an operation determines its values, because not every path is on this machine. */
function valuesOfFlag(flag: Flag, field: Field | undefined): Values | null {
  if (flag.type === 'boolean') return null;
  if (flag.options) return flag.options;
  if (field) return valuesOfField(field);
  const { helpValue = '' } = flag;
  if (helpValue === 'DIR') return 'directories';
  return byFlagName[flag.name] ?? (/\b(FILE|PATH)\b/.test(String(helpValue)) ? 'files' : 'anything');
}

function completedFlag(command: string, flag: Flag): CompletedFlag {
  const { name, char, description = '' } = flag;
  const field = fieldOf(command, flag);
  // A flag that is off by default needs no negation.
  const negative = field?.kind === 'boolean' && field.default === true ? [`--no-${name}`] : [];
  return {
    names: [...(char ? [`-${char}`] : []), `--${name}`, ...negative],
    description: flag.summary ?? description,
    values: valuesOfFlag(flag, field),
    repeats: flag.type === 'option' && flag.multiple === true,
  };
}

function completedArguments(command: string, args: Command.Loadable['args']): CompletedArguments | null {
  const [first] = Object.entries(args);
  if (!first) return null;
  const [name, { options, multiple = false }] = first;
  const source = /^jobs?$/.test(name) ? (jobsFor[command] ?? 'jobs') : byArgument[name];
  return { values: options ?? source ?? 'anything', repeats: multiple };
}

const help: CompletedFlag = {
  names: ['-h', '--help'],
  description: 'Show help',
  values: null,
  repeats: false,
};

/** All commands of a topic as a single command, whose first argument is the rest of their names. */
function joined(topic: string, description: string, commands: readonly CompletedCommand[]): CompletedCommand {
  const flags = new Map(commands.flatMap((each) => each.flags.map((flag) => [flag.names.join(), flag])));
  const values = commands.map(({ names: [name] }) => name.slice(topic.length + 1));
  return { names: [topic], description, flags: [...flags.values()], arguments: { values, repeats: false } };
}

/** The commands as the scripts complete them, from oclif's metadata. */
function completedCommands(config: Interfaces.Config): CompletedCommand[] {
  const commands = config.commands.filter(({ id, aliases, hidden }) => !hidden && !aliases.includes(id));
  const topics = new Map<string, CompletedCommand[]>();
  for (const { id, aliases, summary, description = '', flags, args } of commands) {
    const [topic = id] = id.split(':');
    const command: CompletedCommand = {
      names: [id, ...aliases],
      description: (summary ?? description).replaceAll('<%= config.bin %>', config.bin),
      flags: [...Object.values(flags).flatMap((flag) => (flag.hidden ? [] : completedFlag(id, flag))), help],
      arguments: completedArguments(id, args),
    };
    topics.set(topic, [...(topics.get(topic) ?? []), command]);
  }
  const names = [...topics.keys()];
  return [...topics].map(([topic, members]) => {
    const [first] = members;
    if (first === undefined || first.names[0] !== topic) {
      const { description = '' } = config.topics.find(({ name }) => name === topic) ?? {};
      return joined(topic, description, members);
    }
    return topic === 'help' ? { ...first, arguments: { values: names, repeats: false } } : first;
  });
}

const scripts = { bash: bashScript, zsh: zshScript, fish: fishScript } satisfies Record<Shell, unknown>;

/**
 * The completion script of a shell: the commands and flags of this version; values are looked up when Tab is pressed.
 * @throws UsageError if no shell is named
 */
export function completionScript(shell: Shell | undefined, config: Interfaces.Config): string {
  if (!shell) throw new UsageError(`Name a shell: ${shells.join(', ')}`);
  return scripts[shell](config.bin, completedCommands(config)).trimEnd();
}
