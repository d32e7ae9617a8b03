import type * as z from 'zod/mini';
import { excerpt, exitCodes, formatBytes, quoteName } from '../../contract/index.js';
import { ClientError, type TransportFault } from '../errors.js';

type Issue = z.core.$ZodIssue;

/** The result of a schema's `safeParse`. */
export type Checked<T> =
  | { readonly success: true; readonly data: T }
  | { readonly success: false; readonly error: { readonly issues: readonly Issue[] } };

/** The expected answer of a route, and the maximum size that is read. */
export interface Answer<T> {
  /** What the answer is, for error messages: `a job`. */
  readonly what: string;
  readonly check: (document: unknown) => Checked<T>;
  /** Maximum size, in bytes. */
  readonly maxBytes: number;
}

/** A server's answer was not what was expected. The message names the server and the difference. */
export class AnswerError extends ClientError {
  override readonly name = 'AnswerError';

  /** @param surprise a phrase that begins with a verb: `answered /health with ...` */
  constructor(server: string, surprise: string, options?: ErrorOptions) {
    const message = `${server} ${surprise}; is it a remote-app server?`;
    super(message, exitCodes.notReached, { fault: 'unusable' satisfies TransportFault }, options);
  }
}

function kindOf(value: unknown): string {
  if (typeof value === 'string') return quoteName(value, 60);
  if (Array.isArray(value)) return 'a list';
  return typeof value === 'object' && value !== null ? 'an object' : String(value);
}

const kindsExpected: Readonly<Record<string, string>> = {
  string: 'a text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
};

/** If the answer may have several forms: the first issue of the closest one. */
function closest(forms: readonly (readonly Issue[])[]): Issue | undefined {
  return forms.reduce((best, form) => (form.length <= best.length ? form : best))[0];
}

function problemOf(issue: Issue, document: unknown): string {
  if (issue.code === 'invalid_union') {
    const inner = closest(issue.errors);
    if (inner) return problemOf({ ...inner, path: [...issue.path, ...inner.path] }, document);
  }
  const place = issue.path.map(String);
  const name = place.length > 0 ? excerpt(place.join('.'), 100) : 'the whole';
  let value = document;
  for (const key of place) {
    const holds = typeof value === 'object' && value !== null && Object.hasOwn(value, key);
    value = holds ? (value as Record<string, unknown>)[key] : undefined;
  }
  if (value === undefined) return `${name} is missing`;
  if (issue.code === 'invalid_type') {
    return `${name} is ${kindOf(value)}, not ${kindsExpected[issue.expected] ?? issue.expected}`;
  }
  if (issue.code === 'invalid_value') {
    return `${name} is ${kindOf(value)}, not ${issue.values
      .map(String)
      .join(', ')
      .replace(/, ([^,]*)$/, ' or $1')}`;
  }
  if (issue.code === 'too_big') return `${name} has more than ${issue.maximum} entries`;
  if (issue.code === 'too_small') return `${name} is smaller than ${issue.minimum}`;
  return `${name} is ${kindOf(value)}, ${issue.message}`;
}

/**
 * Parses and checks the body of an answer.
 * @param path that was requested
 * @throws AnswerError for anything unexpected
 */
export function readAnswer<T>(server: string, path: string, text: string, answer: Answer<T>): T {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch (cause) {
    throw new AnswerError(server, `answered ${path} with something other than JSON`, { cause });
  }
  const checked = answer.check(document);
  if (checked.success) return checked.data;
  const [issue] = checked.error.issues;
  const problem = issue ? problemOf(issue, document) : 'it is something else';
  throw new AnswerError(server, `answered ${path} with something that is not ${answer.what}: ${problem}`);
}

/** The error for a body that is longer than it may be. */
export const tooLong = (server: string, path: string, maxBytes: number): AnswerError =>
  new AnswerError(server, `answered ${path} with more than ${formatBytes(maxBytes)}`);
