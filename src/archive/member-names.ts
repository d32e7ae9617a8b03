import { quoteName } from '../contract/index.js';

/**
 * A part of a path in a form that archiver preserves. archiver reads a backslash as a slash, and drops what looks like a drive
 * letter at the start of a path: `T1:mask.nii` and `T2:mask.nii` would both become `mask.nii`.
 */
export const carriedPart = (part: string, isFirst: boolean): string =>
  part.replaceAll(isFirst ? /[\\:]/g : /\\/g, '_');

/** A path with forward slashes, in a form that archiver preserves. */
export const carriedName = (name: string): string =>
  name
    .split('/')
    .map((part, index) => carriedPart(part, index === 0))
    .join('/');

/** The note on a changed name. */
export const changedName = (name: string, isUtf8: boolean): string =>
  `A name that ${isUtf8 ? 'zip cannot carry' : 'is not UTF-8'} was changed to ${quoteName(name)}`;
