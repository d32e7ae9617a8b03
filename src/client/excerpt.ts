import { oneLine, quoteName } from '../contract/quote.js';

/** As much of somebody else's words as a person reads, on one line. */
export function excerpt(text: string, longest = 2000): string {
  return oneLine(text.length > longest ? `${text.slice(0, longest)}...` : text);
}

/** A path in a sentence: whole, for it is to be found by it. */
export const quotePath = (path: string): string => quoteName(path, 4096);
