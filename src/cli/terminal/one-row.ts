import stringWidth from 'fast-string-width';
import { cutToWidth } from './drawn-line.js';

const between = '  ';

/**
 * Some texts side by side, in so many columns. Where there is not room for all of them, the longer ones are cut to the same
 * width: what a bar says of itself is at its beginning.
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
  return cutToWidth(
    texts.map((text, index) => cutToWidth(text, widths.get(index) ?? 0)).join(between),
    columns,
  );
}
