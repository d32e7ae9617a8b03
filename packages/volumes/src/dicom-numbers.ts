import type { DataSet } from 'dicom-parser';
import { numbersOf, wordsOf } from './headers/dicom-parse.js';
import { VolumeError } from './volume.js';

/** Names of elements for messages. */
const titles: Readonly<Record<string, string>> = {
  x00180050: 'slice thickness',
  x00180081: 'echo time',
  x00180086: 'echo number',
  x00180088: 'spacing between slices',
  x00181164: 'imager pixel spacing',
  x00200012: 'acquisition number',
  x00200013: 'instance number',
  x00200032: 'position (Image Position Patient)',
  x00200037: 'orientation (Image Orientation Patient)',
  x00200100: 'temporal position identifier',
  x00280008: 'number of frames',
  x00280030: 'pixel spacing',
  x00281052: 'rescale intercept',
  x00281053: 'rescale slope',
  x3004000c: 'grid frame offset vector',
  x3004000e: 'dose grid scaling',
};

/** Maximum number of characters of a value quoted in a message. */
const maxShown = 40;

/**
 * Reads the numbers of a text element (DS, IS); null if it is absent. A text is never read in part: reading `1,25` as 1 would
 * change every distance.
 * @throws VolumeError for a text that is not entirely a number
 */
export function readNumbers(set: DataSet | undefined, tag: string, name: string): number[] | null {
  const words = wordsOf(set, tag);
  if (words === null) return null;
  const numbers = numbersOf(set, tag);
  if (numbers) return numbers;
  const shown = words.length > maxShown ? `${words.slice(0, maxShown)}...` : words;
  const why = /\d,\d/.test(words) ? ' (DICOM has a decimal point, not a comma)' : '';
  throw new VolumeError(
    `${name} has '${shown}' as its ${titles[tag] ?? `element ${tag}`}, which is not a number${why}: export it again, or convert it to NIfTI.`,
  );
}

/** Reads the first number of a text element. @throws VolumeError for a text that is not a number */
export const readNumber = (set: DataSet | undefined, tag: string, name: string): number | null =>
  readNumbers(set, tag, name)?.[0] ?? null;
