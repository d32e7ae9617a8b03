import { partSizeHeader, ServiceError } from '../contract/index.js';

/** The information in a part's headers. */
export interface PartHeaders {
  readonly field: string;
  /** The file name that the client meant. Null for a text; empty for a file field without a file. */
  readonly file: string | null;
  /** The stated length of the content in bytes; null if not stated. */
  readonly size: number | null;
}

/** A header's value as a number of bytes; null if it is not a number. */
export const sizeIn = (header: string | undefined): number | null =>
  header !== undefined && /^\d{1,15}$/.test(header) ? Number(header) : null;

/** A byte order mark counts as part of a name. */
const strict = { fatal: true, ignoreBOM: true };
const utf8 = new TextDecoder('utf-8', strict);

/**
 * Decodes a text in which each character stands for one byte (Latin-1). Undefined for an unknown charset, and for bytes that are
 * invalid in it.
 */
function decode(bytes: string, charset: string): string | undefined {
  try {
    const decoder = charset === 'utf-8' ? utf8 : new TextDecoder(charset, strict);
    return decoder.decode(Buffer.from(bytes, 'latin1'));
  } catch {
    return undefined;
  }
}

/** Replaces percent-encoded bytes such as `%41`. */
const unescaped = (text: string): string =>
  text.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));

/**
 * The end of a quoted text whose content begins at `start`. Some clients do not escape quotation marks inside, so only a mark
 * that is followed by a semicolon or by nothing ends the text. A backslash escapes a quotation mark, unless no other mark ends
 * the text: then the backslash belongs to a path.
 */
function closingQuote(header: string, start: number): number {
  let escaped = -1;
  for (let at = header.indexOf('"', start); at >= 0; at = header.indexOf('"', at + 1)) {
    if (!/^ {0,16}(;|$)/.test(header.slice(at + 1, at + 18))) continue;
    let slashes = 0;
    while (header[at - 1 - slashes] === '\\') slashes += 1;
    if (slashes % 2 === 0) return at;
    if (escaped < 0) escaped = at;
  }
  return escaped;
}

/** Inside quotes, some clients write a quotation mark as `\"`, others as `%22`. Any other backslash belongs to the name. */
const unquote = (text: string): string => text.replace(/\\"|%22/g, '"');

/** The parameters of a header value. If a name is repeated, its first value counts. */
function parameters(header: string): Map<string, string> {
  const found = new Map<string, string>();
  const name = /;\s*([\w*-]+)=/y;
  name.lastIndex = Math.max(0, header.indexOf(';'));
  /** From this position on, no quotation mark ends a text, so the rest is not searched again. */
  let unclosed = header.length;
  for (let match = name.exec(header); match?.[1]; match = name.exec(header)) {
    const key = match[1].toLowerCase();
    const start = name.lastIndex;
    const isQuoted = header.charAt(start) === '"' && start < unclosed;
    const close = isQuoted ? closingQuote(header, start + 1) : -1;
    if (isQuoted && close < 0) unclosed = start;
    const semicolon = header.indexOf(';', Math.max(start, close));
    const end = semicolon < 0 ? header.length : semicolon;
    const value = close >= 0 ? unquote(header.slice(start + 1, close)) : header.slice(start, end).trim();
    if (!found.has(key)) found.set(key, value);
    name.lastIndex = end;
  }
  return found;
}

/** A text such as `UTF-8''Sch%C3%A4del.nii` (RFC 8187). Undefined for one that is not well formed. */
function extended(text: string): string | undefined {
  const [, charset, encoded] = /^([^']*)'[^']*'(.+)$/s.exec(text) ?? [];
  return encoded === undefined ? undefined : decode(unescaped(encoded), charset?.toLowerCase() || 'utf-8');
}

/**
 * The text of a parameter in its best form: `name*` takes precedence, because clients send it deliberately; the plain form beside
 * it is for readers that do not know `name*`.
 * @throws ServiceError 400 for a text that is not UTF-8
 */
function textOf(given: ReadonlyMap<string, string>, name: string, what: string): string | null {
  const [best, plain] = [given.get(`${name}*`), given.get(name)];
  const text = best === undefined ? undefined : extended(best);
  if (text !== undefined) return text;
  if (best === undefined && plain === undefined) return null;
  const decoded = decode(plain ?? unescaped(best ?? ''), 'utf-8');
  if (decoded === undefined) throw new ServiceError('badRequest', `${what} is not UTF-8`);
  return decoded;
}

/**
 * Interprets the headers of a part. A part with a file name is a file, whatever its type.
 * @param headers by name in lower case; each character of a value stands for one byte (Latin-1)
 * @throws ServiceError 400
 */
export function readPartHeaders(headers: Readonly<Record<string, string>>): PartHeaders {
  const given = parameters(headers['content-disposition'] ?? '');
  const field = textOf(given, 'name', 'A field name');
  if (field === null) throw new ServiceError('badRequest', 'A part of the form has no name');
  return {
    field,
    file: textOf(given, 'filename', 'A file name'),
    size: sizeIn(headers[partSizeHeader]),
  };
}
