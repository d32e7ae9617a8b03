import { FieldError } from './errors.js';
import { type Field, type FieldValue, maxDuration, maxInteger, optionsField } from './fields.js';
import { quoteName, readDuration } from './text.js';

/** Maximum length of a field's text, in characters: generous for a person, and short enough for a command line. */
const maxText = 4096;
/** Maximum length of a label, in characters. */
const maxWords = 200;

const truths: Readonly<Record<string, boolean>> = {
  true: true,
  1: true,
  yes: true,
  on: true,
  false: false,
  0: false,
  no: false,
  off: false,
};

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused
const controls = /[\u0000-\u001f\u007f]/;

/** No value on an app's command line may be read as a flag, or break the line in two. */
function plainText(field: Field, text: string): string {
  if (text.length > maxText) throw new FieldError(field.name, `is longer than ${maxText} characters`);
  if (controls.test(text)) throw new FieldError(field.name, 'holds a control character; remove it');
  // JSON can contain half of a surrogate pair, which no program argument can.
  if (/[\ud800-\udfff]/u.test(text)) {
    throw new FieldError(field.name, 'holds half of a character (an unpaired surrogate); send it whole');
  }
  if (text.startsWith('-')) {
    throw new FieldError(field.name, `must not begin with '-', got ${quoteName(text)}`);
  }
  return text;
}

function relativePath(field: Field, text: string): string {
  const path = plainText(field, text);
  const parts = path.split(/[/\\]/);
  if (/^[/\\]|^[A-Za-z]:/.test(path) || parts.some((part) => part === '..')) {
    const problem = `must be a relative name inside the app, without '..', got ${quoteName(text)}`;
    throw new FieldError(field.name, problem);
  }
  if (parts.every((part) => part === '.' || part === '')) {
    throw new FieldError(field.name, `must name a file of the app, got ${quoteName(text)}`);
  }
  return path;
}

function plainName(field: Field, text: string): string {
  const name = plainText(field, text);
  if (/[/\\]/.test(name) || name === '.' || name === '..' || name.length > 200) {
    const problem = `must be a plain name of at most 200 characters, got ${quoteName(text)}`;
    throw new FieldError(field.name, problem);
  }
  return name;
}

function inBounds(field: Field, value: number): number {
  if (field.min !== undefined && value < field.min) {
    throw new FieldError(field.name, `must be at least ${field.min}, got ${value}`);
  }
  if (field.above !== undefined && value <= field.above) {
    throw new FieldError(field.name, `must be greater than ${field.above}, got ${value}`);
  }
  return value;
}

function integer(field: Field, value: unknown): number {
  const number = typeof value === 'string' && /^[+-]?\d+$/.test(value.trim()) ? Number(value) : value;
  if (typeof number !== 'number' || !Number.isInteger(number)) {
    throw new FieldError(field.name, `must be an integer, got ${quoteName(String(value))}`);
  }
  if (Math.abs(number) > maxInteger)
    throw new FieldError(field.name, `is out of range: ${quoteName(String(value))}`);
  return inBounds(field, number);
}

/** The number that a decimal text stands for; undefined if it is not a number or not finite. */
export function numberOf(text: string): number | undefined {
  const value = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : Number.NaN;
  return Number.isFinite(value) ? value : undefined;
}

function decimal(field: Field, text: string): number {
  const value = numberOf(text);
  if (value === undefined) throw new FieldError(field.name, `must be a number, got ${quoteName(text)}`);
  return inBounds(field, value);
}

function duration(field: Field, text: string): number | typeof maxDuration {
  if (text.toLowerCase() === maxDuration) return maxDuration;
  const seconds = readDuration(text);
  if (seconds !== undefined) return seconds;
  const problem = `must be a time such as 90s, 15m, 12h or 7d, or '${maxDuration}', got ${quoteName(text)}`;
  throw new FieldError(field.name, problem);
}

function override(field: Field, value: unknown): string {
  if (typeof value !== 'string' || !/^\s*[^=\s][^=]*=/.test(value)) {
    throw new FieldError(field.name, `must be NAME=VALUE, got ${quoteName(String(value))}`);
  }
  return plainText(field, value);
}

/** Items of a comma-separated list, without empty ones. */
const csv = (text: string): string[] =>
  text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');

function list<T>(field: Field, items: readonly unknown[], read: (field: Field, item: unknown) => T): T[] {
  if (items.length === 0) throw new FieldError(field.name, 'must not be an empty list');
  return items.map((item) => read(field, item));
}

/** GPU ids without duplicates, in the order given. */
function gpus(text: string, field: Field): readonly number[] {
  return [...new Set(list(field, csv(text), (each, item) => integer({ ...each, min: 0 }, item)))];
}

/**
 * Reads the text of one form field or flag (docs/http.md, Submission).
 * @returns the value; undefined for an empty text, because an empty value counts as absent
 * @throws FieldError naming the field
 */
export function readText(field: Field, given: string): FieldValue | undefined {
  const text = given.trim();
  if (text === '') return undefined;
  switch (field.kind) {
    case 'integer':
      return integer(field, text);
    case 'number':
      return decimal(field, text);
    case 'boolean': {
      const word = text.toLowerCase();
      const value = Object.hasOwn(truths, word) ? truths[word] : undefined;
      if (value === undefined)
        throw new FieldError(field.name, `must be true or false, got ${quoteName(text)}`);
      return value;
    }
    case 'name':
      return plainName(field, text);
    case 'path':
      return relativePath(field, text);
    case 'text':
      if (text.length > maxWords)
        throw new FieldError(field.name, `is longer than ${maxWords} characters; shorten it`);
      return plainText(field, text);
    case 'paths':
      return list(field, csv(text), (each, item) => relativePath(each, String(item)));
    case 'gpus':
      return gpus(text, field);
    case 'integers':
      return list(field, csv(text), integer);
    case 'overrides':
      return [override(field, text)];
    case 'duration':
      return duration(field, text);
    case 'files':
    case 'archive':
      throw new FieldError(field.name, 'must be sent as a file');
  }
}

/** Reads one member of the JSON object `options`. @throws FieldError naming the option */
export function readOption(field: Field, value: unknown): FieldValue {
  const named = { ...field, name: `${optionsField}.${field.name}` };
  if (field.kind === 'integer') {
    if (typeof value !== 'number') throw new FieldError(named.name, 'must be an integer');
    return integer(named, value);
  }
  if (!Array.isArray(value)) throw new FieldError(named.name, 'must be a non-empty list');
  if (field.kind === 'overrides') return list(named, value, override);
  return list(named, value, (each, item) => {
    if (typeof item !== 'number') throw new FieldError(each.name, 'must be a list of integers');
    return integer(each, item);
  });
}
