import type { Command, Interfaces } from '@oclif/core';
import { type Field, type FieldKind, flagName, operations } from '../../contract/index.js';
import type { Offer, ValueSource } from './sources.js';

/**
 * How a word is completed: from a fixed list, from values that have to be looked up, or as a path, which the shell completes
 * itself.
 */
type Values = readonly Offer[] | ValueSource | 'files' | 'directories';

/** The word at the cursor. */
export interface Place {
  readonly values: Values;
  /** The word so far; for `--flag=value` only the value. */
  readonly word: string;
  /** The flags in front of it, each with the words it was typed as. */
  readonly flags: readonly { readonly name: string; readonly words: readonly string[] }[];
}

type Flag = Command.Flag.Cached;

const nothing: readonly Offer[] = [];
const help: Offer = { value: '--help', about: 'Show help' };
const version: Offer = { value: '--version', about: 'Show the version' };

/** For each command, the jobs it can act on; other commands accept any job. */
const jobsFor: Readonly<Record<string, ValueSource>> = {
  kill: 'activeJobs',
  wait: 'activeJobs',
  rm: 'endedJobs',
};
const byField: Partial<Readonly<Record<FieldKind, Values>>> = {
  files: 'files',
  archive: 'files',
};
const byFlagName: Readonly<Record<string, Values>> = {
  app: 'apps',
  profile: 'profiles',
  status: 'states',
};
const byArgument: Readonly<Record<string, Values>> = {
  app: 'apps',
  paths: 'files',
  dir: 'directories',
  directory: 'directories',
};

const listed = (values: readonly string[]): Offer[] => values.map((value) => ({ value, about: '' }));

/** The operation's field that belongs to a flag. */
const fieldOf = (command: string, { name }: Flag): Field | undefined =>
  Object.values(operations)
    .find((each) => each.command === command)
    ?.fields.find((each) => flagName(each) === name);

/** An operation's field takes precedence, because a path in it may be one of the app's own files. */
function valuesOfFlag(command: string, flag: Flag): Values {
  if (flag.type === 'option' && flag.options) return listed(flag.options);
  const field = fieldOf(command, flag);
  if (field) return byField[field.kind] ?? byFlagName[field.name] ?? nothing;
  const { helpValue = '' } = flag as { helpValue?: string | string[] };
  if (helpValue === 'DIR') return 'directories';
  return byFlagName[flag.name] ?? (/\b(FILE|PATH)\b/.test(String(helpValue)) ? 'files' : nothing);
}

function valuesOfArgument({ id, args }: Command.Loadable, count: number): Values {
  const [first] = Object.entries(args);
  if (!first) return nothing;
  const [name, { options, multiple = false }] = first;
  if (count > 0 && !multiple) return nothing;
  if (options) return listed(options);
  return /^jobs?$/.test(name) ? (jobsFor[id] ?? 'jobs') : (byArgument[name] ?? nothing);
}

/** The flags that can still be typed: flags that were already typed are left out unless they can be repeated. */
function flagOffers({ id, flags }: Command.Loadable, typed: ReadonlySet<string>): Offer[] {
  const shown = Object.values(flags).filter(
    (flag) => !flag.hidden && !(typed.has(flag.name) && !(flag.type === 'option' && flag.multiple)),
  );
  const offers = shown.flatMap((flag) => {
    const field = fieldOf(id, flag);
    // A flag that is off by default needs no negation.
    const isOn = field?.kind === 'boolean' && field.default === true;
    const about = flag.summary ?? flag.description ?? '';
    return [`--${flag.name}`, ...(isOn ? [`--no-${flag.name}`] : [])].map((value) => ({ value, about }));
  });
  return [...offers, help];
}

/** The first words of all commands; commands of a topic are offered as the topic. */
function commandOffers({ commands, topics, bin }: Interfaces.Config): Offer[] {
  const names = commands.flatMap(({ id, aliases, hidden, summary, description = '' }): Offer[] => {
    if (hidden || aliases.includes(id)) return [];
    const [topic = id] = id.split(':');
    const about =
      topic === id ? (summary ?? description) : topics.find(({ name }) => name === topic)?.description;
    return [{ value: topic, about: (about ?? '').replaceAll('<%= config.bin %>', bin) }];
  });
  return [...new Map(names.map((each) => [each.value, each])).values()];
}

const memberOffers = ({ commands }: Interfaces.Config, topic: string): Offer[] =>
  commands.flatMap(({ id, summary = '' }) =>
    id.startsWith(`${topic}:`) ? [{ value: id.slice(topic.length + 1), about: summary }] : [],
  );

/**
 * Finds out what can be completed at the cursor.
 * @param words after the name of the program, up to the cursor; the last one is being typed
 */
export function placeOf(words: readonly string[], config: Interfaces.Config): Place {
  const word = words.at(-1) ?? '';
  const [first, second, ...others] = words.slice(0, -1);
  const place = (values: Values): Place => ({ values, word, flags: [] });
  if (first === undefined) return place(word.startsWith('-') ? [help, version] : commandOffers(config));
  if (first === 'help') return place(second === undefined ? commandOffers(config) : nothing);
  const alone = config.findCommand(first);
  if (!alone && second === undefined) return place(memberOffers(config, first));
  const command = alone ?? config.findCommand(`${first}:${second}`);
  if (!command) return place(nothing);
  return placeIn(command, alone ? words.slice(1, -1) : others, word);
}

/** Finds out what can be completed after the name of a command. */
function placeIn(command: Command.Loadable, typed: readonly string[], word: string): Place {
  const flagOf = (text: string): Flag | undefined =>
    text.startsWith('--')
      ? (command.flags[text.slice(2)] ?? command.flags[text.replace(/^--no-/, '')])
      : Object.values(command.flags).find(({ char }) => char !== undefined && text === `-${char}`);
  const flags: { readonly name: string; readonly words: readonly string[] }[] = [];
  // A flag that still needs the next word as its value.
  let open: { readonly flag: Flag; readonly word: string } | null = null;
  let isEnded = false;
  let count = 0;
  for (const each of typed) {
    const flag = isEnded ? undefined : flagOf(each.replace(/=.*/s, ''));
    if (open) {
      flags.push({ name: open.flag.name, words: [open.word, each] });
      open = null;
    } else if (flag?.type === 'option' && !each.includes('=')) open = { flag, word: each };
    else if (flag) flags.push({ name: flag.name, words: [each] });
    else if (each === '--' && !isEnded) isEnded = true;
    else if (isEnded || !/^-./.test(each)) count += 1;
  }
  const place = (values: Values, text = word): Place => ({ values, word: text, flags });
  if (open) return place(valuesOfFlag(command.id, open.flag));
  if (isEnded || !word.startsWith('-')) return place(valuesOfArgument(command, count));
  const [name = '', value] = word.split(/=(.*)/s);
  if (value === undefined) return place(flagOffers(command, new Set(flags.map((each) => each.name))));
  const flag = flagOf(name);
  return place(flag?.type === 'option' ? valuesOfFlag(command.id, flag) : nothing, value);
}
