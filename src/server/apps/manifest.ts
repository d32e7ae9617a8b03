import { lstatSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { type AppManifest, isObject } from '../../contract/index.js';
import { faultWithoutPath, orElse, readSmallFile } from '../../files/index.js';
import { appManifestSchema } from './manifest-schema.js';

/** The file that makes a directory an app. */
export const manifestFile = (directory: string): string => path.join(directory, 'app.json');

/** Maximum size in bytes of an `app.json`: hundreds of labels take 50 KB. */
const maxManifest = 1024 * 1024;

/** Maximum nesting depth. The schema needs 5 levels. */
const deepest = 64;

/** Whether a value is nested more deeply than that. Not recursive, because that could overflow the call stack. */
function isTooDeep(json: unknown): boolean {
  let level = [json];
  for (let depth = 0; depth <= deepest && level.length > 0; depth += 1) {
    level = level.flatMap((value) =>
      typeof value === 'object' && value !== null ? Object.values(value) : [],
    );
  }
  return level.length > 0;
}

/** The text of an app's file; null if it does not exist or cannot be read. */
export const textOf = (file: string): string | null => orElse(() => readSmallFile(file, maxManifest), null);

/** What is wrong at one place in an `app.json`. */
export interface ManifestFault {
  /** The keys that lead to it; empty for the whole file. */
  readonly path: readonly PropertyKey[];
  readonly problem: string;
  /** Whether the fault is that the text is not JSON. */
  readonly isSyntax?: boolean;
}

/** An `app.json` that cannot be used. The message is for clients, and quotes nothing but the app's own content. */
export class ManifestError extends Error {
  constructor(
    message: string,
    readonly faults: readonly ManifestFault[],
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** A message of the schema about one value, in the form used in our sentences. */
export const inWords = (message: string): string =>
  message.endsWith('received undefined') ? 'it is missing' : message.replace(/^Invalid input: /, '');

/** The fault in a text that is not JSON, without the quotation that the parser adds. */
function syntaxFault({ message }: SyntaxError): ManifestFault {
  const why = message.replace(/( in JSON)? at position \d.*$/s, '').replace(/, (\.\.\.)?".*$/s, '');
  return { path: [], problem: `it is not JSON: ${why}`, isSyntax: true };
}

/** The content of `app.json`; unknown keys are in `more`. */
export type ReadManifest = AppManifest & { readonly more: Readonly<Record<string, unknown>> };

/** Removes the command of an app from a repository: only the admin decides which programs run on this machine. */
const withoutCommand = (json: unknown): unknown =>
  isObject(json) ? { ...json, command: undefined, resident: undefined, shared: undefined } : json;

/** The fault of a manifest with contradictory fields; null if it has none. */
function contradiction({ command, resident, shared }: AppManifest): ManifestFault | null {
  if (resident && !command)
    return {
      path: ['resident'],
      problem: 'only a program of the app can be resident, and `command` is missing',
    };
  return shared && !resident
    ? { path: ['shared'], problem: 'only an app that stays loaded can be shared: add `"resident": true`' }
    : null;
}

type Origin = 'admin' | 'repository';

/**
 * Reads the `app.json` of an app directory.
 * @param from the origin of the app: a command in an app from a repository is ignored
 * @returns its content, with keys that we do not know, such as `task`, in `more`
 * @throws ManifestError that says which key of which file is wrong
 */
export function readManifest(directory: string, from: Origin = 'admin'): ReadManifest {
  const file = manifestFile(directory);
  let json: unknown;
  try {
    json = JSON.parse(readSmallFile(file, maxManifest));
  } catch (cause) {
    // A syntax error's message quotes the file, and the target of a link may not belong to the app.
    const isQuoted = cause instanceof SyntaxError && from === 'admin' && lstatSync(file).isSymbolicLink();
    const why = isQuoted ? 'it is a link to a file that is not JSON' : faultWithoutPath(cause);
    const unread = { path: [], problem: `it cannot be read: ${why}` };
    const fault = cause instanceof SyntaxError && !isQuoted ? syntaxFault(cause) : unread;
    throw new ManifestError(`app.json of this app cannot be read: ${why}`, [fault], { cause });
  }
  if (isTooDeep(json)) {
    const problem = `it has more than ${deepest} levels of objects and lists`;
    throw new ManifestError(`app.json of this app is not valid: ${problem}`, [{ path: [], problem }]);
  }
  const coerced = coerceManifest(from === 'admin' ? json : withoutCommand(json));
  const parsed = appManifestSchema.safeParse(coerced);
  if (!parsed.success) {
    const faults = parsed.error.issues.map(({ path, message }) => ({ path, problem: inWords(message) }));
    throw new ManifestError(`app.json of this app is not valid: ${z.prettifyError(parsed.error)}`, faults);
  }
  const fault = contradiction(parsed.data);
  if (fault)
    throw new ManifestError(`app.json of this app is not valid: ${fault.path.join('.')}: ${fault.problem}`, [
      fault,
    ]);
  const others = Object.entries(Object(coerced)).filter(
    ([key]) => !Object.hasOwn(appManifestSchema.shape, key),
  );
  return { ...parsed.data, more: Object.fromEntries(others) };
}

/**
 * Converts a value like Python's `int()`, which truncates fractions and reads digits. Anything else stays unchanged, and the
 * schema rejects it.
 */
function whole(value: unknown): unknown {
  if (typeof value === 'boolean') return Number(value);
  if (typeof value === 'number') return Math.trunc(value);
  return typeof value === 'string' && /^\s*[+-]?\d+\s*$/.test(value) ? Number(value) : value;
}

/** Converts numbers and booleans to text, and null to an empty text. */
function text(value: unknown): unknown {
  if (value === null) return '';
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : value;
}

/** Converts a value like Python's `bool()`. */
function truth(value: unknown): unknown {
  if (Array.isArray(value) || isObject(value)) return value;
  return value !== 0 && value !== '' && value !== null && value !== false;
}

/** Changes each value of an object; anything else stays as it is. */
function each(object: unknown, change: (value: unknown) => unknown): unknown {
  if (!isObject(object)) return object;
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, change(value)]));
}

/** Changes these keys of an object where they are present. */
function withKeys(value: unknown, changes: Readonly<Record<string, (value: unknown) => unknown>>): unknown {
  if (!isObject(value)) return value;
  const changed = Object.entries(changes).flatMap(([key, change]) =>
    value[key] === undefined ? [] : [[key, change(value[key])] as const],
  );
  return { ...value, ...Object.fromEntries(changed) };
}

const volume = (value: unknown): unknown => withKeys(value, { display_name: text, required: truth });
const volumes = (value: unknown): unknown => (value === null ? {} : each(value, volume));
const list = (value: unknown, item: (value: unknown) => unknown): unknown =>
  Array.isArray(value) ? value.map(item) : value;

/** A value such as `"None"` means that the patch size is in the prediction configuration. */
const patchSize = (value: unknown): unknown => (Array.isArray(value) ? value.map(whole) : null);

/**
 * Converts values in the forms that the KonfAI ecosystem writes to those that the schema requires, as KonfAI's own reader does.
 * @param json the content of an `app.json`
 */
function coerceManifest(json: unknown): unknown {
  const coerced = withKeys(json, {
    display_name: text,
    description: text,
    short_description: text,
    tta: whole,
    mc_dropout: whole,
    inputs: volumes,
    outputs: volumes,
    inputs_evaluations: (value) => (value === null ? {} : each(value, (byFile) => each(byFile, volumes))),
    terminology: (value) => each(value, (entry) => withKeys(entry, { name: text, color: text })),
    models: (value) => list(value, text),
    patch_size: patchSize,
  });
  if (!isObject(coerced)) return coerced;
  // For these keys, null counts as missing.
  const optional = [
    'command',
    'resident',
    'shared',
    'models',
    'terminology',
    'citation',
    'parameters',
    'resources',
    'retry_alone',
  ];
  return Object.fromEntries(
    Object.entries(coerced).filter(([key, value]) => value !== null || !optional.includes(key)),
  );
}

/** A fault and its line in the file; null if it has none. */
interface FaultOnLine extends ManifestFault {
  readonly line: number | null;
}

/** Whether a text cannot be JSON, whatever follows it. */
function isWrongAlready(text: string): boolean {
  try {
    JSON.parse(text);
    return false;
  } catch (cause) {
    const [, position] = /at position (\d+)/.exec(String(cause)) ?? [];
    return position === undefined ? !/end of JSON/.test(String(cause)) : Number(position) < text.length;
  }
}

/** The offset at which a text stops being JSON, determined here because Node's parser does not always report it. */
function syntaxOffset(text: string): number {
  let [right, wrong] = [0, text.length];
  while (wrong - right > 1) {
    const middle = Math.floor((right + wrong) / 2);
    if (isWrongAlready(text.slice(0, middle))) wrong = middle;
    else right = middle;
  }
  return Math.min(right, text.trimEnd().length);
}

/** Matches the tokens of a JSON text: strings, punctuation marks, and all other values. */
const jsonToken = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/**
 * The offset in a JSON text at which the value at this path begins. If there is no such value, the offset of the innermost object
 * or list around it.
 */
function valueOffset(text: string, path: readonly PropertyKey[]): number {
  /** For each open object or list, the key or index of its current value. */
  const open: PropertyKey[] = [];
  let found = { depth: -1, offset: 0 };
  let isKey = false;
  for (const { 0: token, index } of text.matchAll(jsonToken)) {
    if (token === '}' || token === ']') {
      open.pop();
      isKey = false;
    } else if (token === ',') {
      const last = open.at(-1);
      isKey = typeof last === 'string';
      if (typeof last === 'number') open[open.length - 1] = last + 1;
    } else if (token === ':') {
      isKey = false;
    } else if (isKey) {
      open[open.length - 1] = JSON.parse(token);
    } else {
      const isOnPath = open.length <= path.length && open.every((key, depth) => key === path[depth]);
      if (isOnPath && open.length > found.depth) found = { depth: open.length, offset: index };
      if (token === '{') open.push('');
      else if (token === '[') open.push(0);
      isKey = token === '{';
    }
  }
  return found.offset;
}

/** Finds the lines of faults in an `app.json`. For a missing key, that is the line of the object around it. */
export function onLines(file: string, faults: readonly ManifestFault[]): FaultOnLine[] {
  const text = textOf(file);
  if (text === null) return faults.map((fault) => ({ ...fault, line: null }));
  const lineAt = (offset: number) => text.slice(0, offset).split('\n').length;
  return faults.map((fault) => ({
    ...fault,
    line: lineAt(fault.isSyntax ? syntaxOffset(text) : valueOffset(text, fault.path)),
  }));
}
