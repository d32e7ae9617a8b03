import { shellQuoted } from '../contract/shell-word.js';

/** bwrap takes 9000 words: its own and those of the command together, also where it reads them from a file. */
const mostWords = 8000;
/** A part of a text that ends between two characters. Linux takes less than 128 KiB for a word; a character has up to 4 bytes. */
const part = /.{1,30000}/gsu;

/** Joins the parts of a command, and becomes that command: its process id, its signals and its end are the command's. */
const script = 'IFS=; eval "exec $*"';

/** Whether a command is given to bwrap as parts of one text, since it has more words than bwrap takes. */
export const hasManyWords = (wrapper: readonly string[], command: readonly string[]): boolean =>
  wrapper.length + command.length > mostWords;

/** A command of many words as a shell that gets it in a few, and that expands nothing of them. */
export const inFewWords = (command: readonly string[]): string[] => [
  '/bin/sh',
  '-c',
  script,
  'sh',
  ...(command.map(shellQuoted).join(' ').match(part) ?? []),
];
