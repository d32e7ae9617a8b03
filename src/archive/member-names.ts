import { quoteName } from '../contract/index.js';

/**
 * A part of a path as zip can carry it. Programs read a backslash as a slash, and what looks like a drive at the start of a
 * path may not be there (APPNOTE, 4.4.17).
 */
export const carriedPart = (part: string, isFirst: boolean): string =>
  part.replaceAll(isFirst ? /[\\:]/g : /\\/g, '_');

/** A path with forward slashes as zip can carry it. */
export const carriedName = (name: string): string =>
  name
    .split('/')
    .map((part, index) => carriedPart(part, index === 0))
    .join('/');

/** The note on a changed name. */
export const changedName = (name: string, isUtf8: boolean): string =>
  `A name that ${isUtf8 ? 'zip cannot carry' : 'is not UTF-8'} was changed to ${quoteName(name)}`;
