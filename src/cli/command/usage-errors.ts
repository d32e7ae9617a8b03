import type { Interfaces } from '@oclif/core';
import * as Flags from '@oclif/core/flags';
import { UsageError } from '../../client/errors.js';
import { nearest, oneLine, quoteName, unlabelled } from '../../contract/index.js';

/** A flag has an invalid value. oclif adds text to `message`, so the original sentence is stored separately. */
export class FlagValueError extends UsageError {
  readonly sentence: string;

  /**
   * @param takes the kind of value that the flag accepts, such as `a whole number`
   * @param verb `must be` if a value of that kind is out of bounds
   */
  constructor(flag: string, takes: string, given: string, verb: 'takes' | 'must be' = 'takes') {
    const sentence = `--${flag} ${verb} ${takes}, got ${quoteName(given)}`;
    super(sentence);
    this.sentence = sentence;
  }
}

type Range = {
  min?: number;
  max?: number;
};

/** A whole number like `Flags.integer`, but with errors that are full sentences. */
export const wholeNumber = Flags.custom<number, Range>({
  parse: async (input, _, { name, min, max }) => {
    if (!/^-?\d+$/.test(input)) throw new FlagValueError(name, 'a whole number', input);
    const value = Number(input);
    if (min !== undefined && value < min) throw new FlagValueError(name, `at least ${min}`, input, 'must be');
    if (max !== undefined && value > max) throw new FlagValueError(name, `at most ${max}`, input, 'must be');
    return value;
  },
});

/** The properties of errors from oclif's parser, which does not export their classes. */
interface ParserError extends Error {
  readonly parse?: unknown;
  /** Arguments that are missing or unexpected. */
  readonly args?: readonly (string | { readonly name: string; readonly description?: string })[];
  /** Texts that look like flags and are not flags of the command. */
  readonly flags?: readonly string[];
}

/** The names of a flag and its aliases, without dashes. */
const namesOf = ([name, flag]: [string, Interfaces.Flag<unknown>]): string[] => [
  name,
  ...(flag.aliases ?? []),
  ...(flag.type === 'boolean' && flag.allowNo ? [`no-${name}`] : []),
];

/** The end of a sentence: the flags that were probably meant. */
function meant(unknown: readonly string[], known: Interfaces.FlagInput): string {
  const names = [...Object.entries(known).flatMap(namesOf), 'help', 'json'];
  const near = unknown.map((flag) => nearest(flag.replace(/^-+/, '').replace(/=.*$/s, ''), names));
  const found = new Set(near.flatMap((name) => (name === null ? [] : [`--${name}`])));
  return found.size === 0 ? '' : `; did you mean ${[...found].join(', ')}?`;
}

/** Rewrites one line of a parser error from oclif. For two conflicting flags, their values are left out. */
function ofParser(line: string, known: Interfaces.FlagInput): string {
  const [, missing] = /^Missing required flag ([\w-]+)$/.exec(line) ?? [];
  if (missing !== undefined) return `Missing: --${missing} (${known[missing]?.description})`;
  const [, given, needed] =
    /^All of the following must be provided when using (--[\w-]+): (.*)$/s.exec(line) ?? [];
  if (needed !== undefined) return `${given} needs ${needed.replaceAll(', ', ' and ')}`;
  return line.replace(
    /^(--[\w-]+)=.* cannot also be provided when using (--[\w-]+)$/s,
    '$1 and $2 exclude each other; give one of them',
  );
}

/** Colours, which oclif's parser writes into its messages if stderr is a terminal. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is removed
const colours = /\u001b\[[\d;]*m/g;

/** The error as one sentence on one line. @param known flags of the command */
export function sentenceOf(error: Error, known: Interfaces.FlagInput): string {
  if (error instanceof FlagValueError) return error.sentence;
  const { parse, args = [], flags = [], message } = error as ParserError;
  const missing = args.filter((arg) => typeof arg === 'object');
  if (missing.length > 0) {
    return `Missing: ${missing.map(({ name, description }) => `${name.toUpperCase()} (${description})`).join(', ')}`;
  }
  // Drops the parser's last line about help, because the command prints its own.
  const text =
    parse === undefined ? message : message.slice(0, message.lastIndexOf('\n')).replace(colours, '');
  const [heading, ...lines] = text.split('\n');
  const isList = /^The following errors? occurred:$/.test(heading ?? '');
  const sentences = isList ? lines.map((line) => ofParser(line.trim(), known)) : [text];
  return unlabelled(oneLine(sentences.join('; '))) + meant(flags, known);
}
