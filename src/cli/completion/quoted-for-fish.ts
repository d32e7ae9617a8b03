/** A text as one word of fish, which reads a backslash in single quotes, unlike other shells. */
export const quotedForFish = (text: string): string => `'${text.replace(/[\\']/g, '\\$&')}'`;
