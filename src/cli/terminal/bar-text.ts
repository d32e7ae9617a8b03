import { stripVTControlCharacters } from 'node:util';

/** Whether a terminal shows nothing of a text. */
export const isBlank = (text: string): boolean => stripVTControlCharacters(text).trim() === '';

/** What a bar says without its figures and its drawing. */
const wordsOf = (text: string): string =>
  stripVTControlCharacters(text)
    .replaceAll(/\P{L}+/gu, ' ')
    .trim();

/** Whether a text is another state of a bar, as far as its words tell. */
export const isSameBar = (state: string | null, text: string): boolean =>
  state !== null && wordsOf(state) === wordsOf(text);
