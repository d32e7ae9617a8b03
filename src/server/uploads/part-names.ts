/**
 * Names of a part, from its `Content-Disposition` header. The header and the names have one character a byte (Latin-1).
 */
export interface PartNames {
  /** Null if the part has no name. */
  readonly field: string | null;
  /** Null for a part that is not a file. */
  readonly file: string | null;
}

/** To bytes, one character each. */
const percentDecode = (text: string): string =>
  text.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));

/**
 * The end of a quoted text that begins at `start`. Some clients do not escape quotation marks inside, so only one followed
 * by a semicolon or nothing ends the text.
 */
function closingQuote(header: string, start: number): number {
  for (let at = header.indexOf('"', start); at >= 0; at = header.indexOf('"', at + 1)) {
    const next = header.charAt(at + 1);
    if (next === '' || next === ';') return at;
    if (next === ' ' && /^ *(;|$)/.test(header.slice(at + 1, at + 17))) return at;
  }
  return -1;
}

/** Some clients write a quotation mark inside quotes as `\"`, others as `%22`. Other backslashes belong to the name. */
const unquote = (text: string): string => text.replace(/\\"|%22/g, '"');

/** The parameters of a header's value. If one is repeated, the first counts. */
function parameters(header: string): Map<string, string> {
  const found = new Map<string, string>();
  const name = /;\s*([\w*-]+)=/y;
  name.lastIndex = Math.max(0, header.indexOf(';'));
  /** Where no quotation mark closes a text from, since none does: it is not searched again. */
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

/** Reads the names of a part. A part with a file name is a file, whatever its type is. */
export function partNames(disposition: string): PartNames {
  const given = parameters(disposition);
  const extended = /^utf-8''(.*)$/i.exec(given.get('filename*') ?? '')?.[1];
  return {
    field: given.get('name') ?? null,
    file: given.get('filename') ?? (extended === undefined ? null : percentDecode(extended)),
  };
}
