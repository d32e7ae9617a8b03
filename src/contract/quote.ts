/**
 * Characters that end a line somewhere (Python's `splitlines` knows ten of them), that a terminal acts upon, or that
 * change the direction of the text after them.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is escaped
const unprintable = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** A character that does not print, as `\x07` or `\u202e`. */
export const escaped = (character: string): string => {
  const code = character.charCodeAt(0);
  return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16)}`;
};

/** Text from outside on one line of a log or a message: what is not printable is shown as `\x0a` or `\u2028`. */
export const oneLine = (text: string): string => text.replace(unprintable, escaped);

/** As much of somebody else's words as a person reads, on one line. */
export const excerpt = (text: string, maxLength = 2000): string =>
  oneLine(text.length > maxLength ? `${text.slice(0, maxLength)}...` : text);

/** A name from outside inside a sentence: quoted, on one line, cut where it is longer than a person reads. */
export const quoteName = (name: string, maxLength = 200): string => `'${excerpt(name, maxLength)}'`;

/** A path in a sentence: whole, so that a person can find the file. */
export const quotePath = (path: string): string => quoteName(path, 4096);

/** The words of an error that begin with 'Error:' themselves, without that: whoever shows an error says so once. */
export const unlabelled = (text: string): string => text.replace(/^(\s*error:\s+)+/i, '');
