/** A text as one word of a shell, of which it expands nothing. fish reads a backslash in single quotes, the others do not. */
export const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

export const quotedForFish = (text: string): string => `'${text.replace(/[\\']/g, '\\$&')}'`;
