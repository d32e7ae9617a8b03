import type { Picture } from './picture.js';

// Not the package `sixel`: most of it decodes, with WebAssembly, and it blends what has more than 256 colours, thin
// contours too.

/** Levels of each of red, green and blue, the finest first. Sixel counts in percent; six levels have fewer than 256 colours. */
const levels = [101, 64, 32, 16, 8, 6] as const;

/** Most colours of a picture. */
const maxColours = 256;

/** Finds the colours of a picture, with as many levels as fit: greys and the few colours of labels stay as they are. */
function coloursOf({ width, height, pixels }: Picture): {
  /** Red, green and blue of each colour, in percent. */
  readonly palette: readonly (readonly number[])[];
  /** The colour of each pixel. */
  readonly indices: Uint8Array;
} {
  for (const count of levels) {
    const known = new Map<number, number>();
    const indices = new Uint8Array(width * height);
    for (let at = 0; at < indices.length && known.size <= maxColours; at += 1) {
      let code = 0;
      for (let part = 0; part < 3; part += 1)
        code = code * 128 + Math.round(((pixels[at * 3 + part] as number) / 255) * (count - 1));
      const index = known.get(code) ?? known.size;
      known.set(code, index);
      indices[at] = index;
    }
    if (known.size > maxColours) continue;
    const percent = (step: number) => Math.round((step / (count - 1)) * 100);
    const palette = [...known.keys()].map((code) => [code >> 14, (code >> 7) & 127, code & 127].map(percent));
    return { palette, indices };
  }
  return { palette: [], indices: new Uint8Array(0) };
}

/** A character as often as it follows itself. */
const repeated = (character: string, count: number): string =>
  count > 3 ? `!${count}${character}` : character.repeat(count);

/** Six rows of a picture in one colour. A character has the six pixels of a column, the upper one in its lowest bit. */
function bandOf({ width }: Picture, indices: Uint8Array, top: number, colour: number): string {
  let [text, last, count] = ['', '', 0];
  for (let x = 0; x < width; x += 1) {
    let bits = 0;
    for (let y = 0; y < 6; y += 1) if (indices[(top + y) * width + x] === colour) bits |= 1 << y;
    const character = String.fromCharCode(63 + bits);
    if (character !== last) {
      text += repeated(last, count);
      [last, count] = [character, 0];
    }
    count += 1;
  }
  return text + repeated(last, count);
}

/** A picture as sixels, the protocol of the DEC VT340. */
export function sixelOf(picture: Picture): string {
  const { width, height } = picture;
  const { palette, indices } = coloursOf(picture);
  const bands: string[] = [];
  for (let top = 0; top < height; top += 6) {
    const used = new Set(indices.subarray(top * width, (top + 6) * width));
    bands.push([...used].map((colour) => `#${colour}${bandOf(picture, indices, top, colour)}`).join('$'));
  }
  const colours = palette.map((parts, at) => `#${at};2;${parts.join(';')}`).join('');
  return `\u001bP0;1;0q"1;1;${width};${height}${colours}${bands.join('-')}\u001b\\`;
}
