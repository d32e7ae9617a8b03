import { Flags } from '@oclif/core';
import { UsageError } from '../client/errors.js';
import { oneLine, quoteName } from '../contract/quote.js';

/** A flag's value that cannot be used. oclif puts words of its own around `message`; the sentence stays as it is. */
export class FlagValueError extends UsageError {
  readonly sentence: string;

  /** @param takes what the flag takes, as in `a whole number` */
  constructor(flag: string, takes: string, given: string) {
    const sentence = `--${flag} takes ${takes}, got ${quoteName(given)}`;
    super(sentence);
    this.sentence = sentence;
  }
}

type Range = {
  min?: number;
  max?: number;
};

/** The range in words, after `a whole number`. */
function within({ min, max }: Range): string {
  if (min === undefined) return max === undefined ? '' : ` of at most ${max}`;
  return max === undefined ? ` of at least ${min}` : ` from ${min} to ${max}`;
}

/** A whole number, as `Flags.integer` reads it. */
export const wholeNumber = Flags.custom<number, Range>({
  parse: async (input, _, { name, ...range }) => {
    if (!/^-?\d+$/.test(input)) throw new FlagValueError(name, 'a whole number', input);
    const value = Number(input);
    const { min = value, max = value } = range;
    if (value < min || value > max) throw new FlagValueError(name, `a whole number${within(range)}`, input);
    return value;
  },
});

/** What the errors of oclif's parser carry. It exports none of their classes. */
interface ParserError extends Error {
  readonly parse?: unknown;
  /** What was expected and is missing; or the texts that nothing expects. */
  readonly args?: readonly (string | { readonly name: string; readonly description?: string })[];
}

/** What went wrong, as one sentence on one line. */
export function sentenceOf(error: Error): string {
  if (error instanceof FlagValueError) return error.sentence;
  const { parse, args = [], message } = error as ParserError;
  const missing = args.filter((arg) => typeof arg === 'object');
  if (missing.length > 0) {
    return `Missing: ${missing.map(({ name, description }) => `${name.toUpperCase()} (${description})`).join(', ')}`;
  }
  // Every error of the parser ends with a line that says how to get help; the command says it in its own way.
  return oneLine(parse === undefined ? message : message.slice(0, message.lastIndexOf('\n')));
}
