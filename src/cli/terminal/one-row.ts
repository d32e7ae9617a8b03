import stringWidth from 'fast-string-width';
import { cutToWidth } from './drawn-line.js';

const between = '  ';

/**
 * As much of one text as fits. A bar whose figures would be cut off, as behind the long name of a case, loses the middle of what
 * stands before them.
 */
function cutRow(text: string, columns: number): string {
  const figures = text.search(/\d{1,3}(\.\d+)?\s?%/);
  const head = Math.floor(columns / 3);
  if (stringWidth(text) <= columns || figures < columns - 5 || head < 5) return cutToWidth(text, columns);
  // From a bar's width before the figures on.
  const tail = text.slice(Math.max(head, figures - Math.floor(columns / 3)));
  return cutToWidth(`${cutToWidth(text, head)}…${tail}`, columns);
}

/**
 * Puts some texts side by side in so many columns. If they do not fit, the longer ones are cut to the same width, because a
 * progress bar's name is at its beginning.
 */
export function inOneRow(texts: readonly string[], columns: number): string {
  let room = columns - between.length * (texts.length - 1);
  let left = texts.length;
  const widths = new Map<number, number>();
  const byWidth = texts.map((text, index) => [stringWidth(text), index] as const).sort(([a], [b]) => a - b);
  for (const [width, index] of byWidth) {
    const share = Math.min(width, Math.max(0, Math.floor(room / left)));
    widths.set(index, share);
    room -= share;
    left -= 1;
  }
  return cutToWidth(texts.map((text, index) => cutRow(text, widths.get(index) ?? 0)).join(between), columns);
}
