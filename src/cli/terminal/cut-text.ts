import stringWidth from 'fast-string-width';

/** The characters of a text as people count them. Not made at the start: the first segmenter takes 15 ms and 3 MB. */
const graphemesOf = (text: string) => new Intl.Segmenter().segment(text);

/** As much of a text without colours as fits into this many columns: some characters take two of them. */
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

/** A text without its middle, if it is wider than this: names of many files begin alike. */
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
 * As much of a text as fits. If a bar's figures would be cut off, as after a long case name, the middle of the name is
 * left out instead.
 */
export function cutRow(text: string, columns: number): string {
  const figures = text.search(/\d{1,3}(\.\d+)?\s?%/);
  const head = Math.floor(columns / 3);
  if (stringWidth(text) <= columns || figures < columns - 5 || head < 5) return cutToWidth(text, columns);
  // Starts within the bar, so that a part of it is shown before the figures.
  const tail = text.slice(Math.max(head, figures - Math.floor(columns / 3)));
  return cutToWidth(`${cutToWidth(text, head)}…${tail}`, columns);
}
