/** Whether a shell takes a text as it stands. */
export const isPlainWord = (text: string): boolean => /^[\w@%+=:,./-]+$/.test(text);

/** A text as one word of a POSIX shell, which expands nothing of it. */
export const shellQuoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** The same, quoted only where it has to be. */
export const shellWord = (text: string): string => (isPlainWord(text) ? text : shellQuoted(text));
