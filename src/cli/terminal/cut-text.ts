import stringWidth from 'fast-string-width';

/** The characters of a text as users perceive them. Created on demand, because the first segmenter takes 15 ms and 3 MB. */
const graphemesOf = (text: string) => new Intl.Segmenter().segment(text);

/** Cuts a text without colours to this many columns; some characters take two. */
export function cutToWidth(text: string, columns: number): string {
  if (stringWidth(text) <= columns) return text;
  let cut = '';
  let width = 0;
  for (const { segment } of graphemesOf(text)) {
    width += stringWidth(segment);
    if (width > columns) break;
    cut += segment;
  }
  return cut;
}

/** Cuts the middle out of a text that is too wide, because names of many files begin alike. */
export function cutMiddle(text: string, columns: number): string {
  if (stringWidth(text) <= columns) return text;
  const head = cutToWidth(text, Math.ceil((columns - 1) / 2));
  let tail = '';
  for (const { segment } of [...graphemesOf(text)].reverse()) {
    if (stringWidth(`${head}…${segment}${tail}`) > columns) break;
    tail = segment + tail;
  }
  return `${head}…${tail}`;
}

/**
 * Cuts a text to this many columns. If that would cut off a bar's figures, for example after a long case name, the middle is left
 * out instead.
 */
export function cutRow(text: string, columns: number): string {
  const figures = text.search(/\d{1,3}(\.\d+)?\s?%/);
  const head = Math.floor(columns / 3);
  if (stringWidth(text) <= columns || figures < columns - 5 || head < 5) return cutToWidth(text, columns);
  // Starts within the bar, so that a part of it is shown before the figures.
  const tail = text.slice(Math.max(head, figures - Math.floor(columns / 3)));
  return cutToWidth(`${cutToWidth(text, head)}…${tail}`, columns);
}
