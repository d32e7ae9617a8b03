import { lstatSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { type AppManifest, appManifestSchema } from '../../contract/app-manifest.js';
import { faultWithoutPath } from '../../files/error-code.js';
import { readSmallFile } from '../../files/small-file.js';
import { coerceManifest } from './coerce-manifest.js';

/** The file that makes a directory an app. */
export const manifestFile = (directory: string): string => path.join(directory, 'app.json');

/** Most bytes of an `app.json`, which is read in one go for each question and each job: hundreds of labels take 50 KB. */
export const longestManifest = 1024 * 1024;

/** Most levels of objects and lists in it. The schema needs 5; a far deeper one could not be written as an answer. */
const deepest = 64;

/** Whether a value has more levels of objects and lists than that. Not recursive: the call stack would not hold them. */
function isTooDeep(json: unknown): boolean {
  let level = [json];
  for (let depth = 0; depth <= deepest && level.length > 0; depth += 1) {
    level = level.flatMap((value) =>
      typeof value === 'object' && value !== null ? Object.values(value) : [],
    );
  }
  return level.length > 0;
}

/** What is wrong at one place of an `app.json`. */
export interface ManifestFault {
  /** The keys that lead to it; empty for the whole file. */
  readonly path: readonly PropertyKey[];
  readonly problem: string;
  /** The text is not JSON. */
  readonly isSyntax?: boolean;
}

/** An `app.json` that cannot be used. The message is for clients, and quotes nothing that is not the app's. */
export class ManifestError extends Error {
  constructor(
    message: string,
    readonly faults: readonly ManifestFault[],
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** The sentence of the schema about one value. */
export const inWords = (message: string): string =>
  message.endsWith('received undefined') ? 'it is missing' : message.replace(/^Invalid input: /, '');

/** A fault of a text that is not JSON, without the parser's quotation of the text. */
function syntaxFault({ message }: SyntaxError): ManifestFault {
  const why = message.replace(/( in JSON)? at position \d.*$/s, '').replace(/, (\.\.\.)?".*$/s, '');
  return { path: [], problem: `it is not JSON: ${why}`, isSyntax: true };
}

/** What `app.json` says, and under `more` the keys that we do not know. */
export type ReadManifest = AppManifest & { readonly more: Readonly<Record<string, unknown>> };

/** Without its command and how that is started, whatever they are: nobody has read them who may say what runs on this machine. */
const withoutCommand = (json: unknown): unknown =>
  typeof json === 'object' && json !== null && !Array.isArray(json)
    ? { ...json, command: undefined, resident: undefined }
    : json;

/** What an app lacks to be what it says. */
const contradiction = ({ command, resident }: AppManifest): ManifestFault | null =>
  resident && !command
    ? { path: ['resident'], problem: 'only a program of the app can be resident, and `command` is missing' }
    : null;

type Origin = 'admin' | 'repository';

/** What was understood last: each job asks several times, and nearly always finds the same text. */
let last: { readonly text: string; readonly from: Origin; readonly manifest: ReadManifest } | undefined;

/**
 * Reads the `app.json` of an app directory.
 * @param from whose it is: the command of an app that came from a repository does not count
 * @returns what it says, and under `more` the keys that we do not know, such as `task`
 * @throws ManifestError that says which key of which file is wrong
 */
export function readManifest(directory: string, from: Origin = 'admin'): ReadManifest {
  const file = manifestFile(directory);
  let text: string;
  let json: unknown;
  try {
    text = readSmallFile(file, longestManifest);
    if (last?.text === text && last.from === from) return last.manifest;
    json = JSON.parse(text);
  } catch (cause) {
    // The sentence of a syntax error quotes the file, which may be another one than the app's if it is a link.
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
    throw new ManifestError(`app.json of this app is not valid: resident: ${fault.problem}`, [fault]);
  const others = Object.entries(Object(coerced)).filter(
    ([key]) => !Object.hasOwn(appManifestSchema.shape, key),
  );
  const manifest = { ...parsed.data, more: Object.fromEntries(others) };
  last = { text, from, manifest };
  return manifest;
}
