import { escaped } from '../contract/quote.js';

/**
 * What a terminal may be sent of text from outside. A terminal acts upon control sequences: they write its clipboard,
 * change its title, move its cursor over earlier lines. Colours are all that a log has need of.
 */

/** `ESC [` with its parameters and its last character: the only one that is a colour (SGR) ends with `m`. */
const csi = '\\u001b\\[[0-?]*[ -/]*[@-~]';
/** OSC, DCS, SOS, PM and APC carry a text, up to BEL or ST. */
const withText = '\\u001b[\\]PX^_][^\\u0007\\u001b\\u009c]*(?:\\u0007|\\u001b\\\\|\\u009c)';
/** The short ones: `ESC c` resets the terminal. */
const short = '\\u001b[ -/]+[0-~]|\\u001b[0-OQ-WYZ\\\\`-~]';
/** Every control character but tab, the two that end a line for some, and those that turn the direction of text. */
const control =
  '[\\u0000-\\u0008\\u000a-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]';

const unsafe = new RegExp(`${csi}|${withText}|${short}|${control}`, 'g');
const hasUnsafe = new RegExp(control);
/** Of a control sequence whether it is a colour, of a length that colours have. */
const colour = /^.\[[\d;:]{0,64}m$/;
const reset = '\u001b[0m';

function safeLine(line: string, keepsColours: boolean): string {
  if (!hasUnsafe.test(line)) return line;
  let isColoured = false;
  const safe = line.replace(unsafe, (found) => {
    if (found.length === 1) return escaped(found);
    if (!keepsColours || !colour.test(found)) return '';
    isColoured = true;
    return found;
  });
  return isColoured ? safe + reset : safe;
}

/**
 * Text as a terminal may have it. Its line feeds are those of whoever writes: what comes from outside has been put on one
 * line before. Of control sequences only colours stay, and they end with their line; a lone control character is
 * shown as `\x07`.
 */
export const forTerminal = (text: string): string =>
  text
    .split('\n')
    .map((line) => safeLine(line, true))
    .join('\n');

const everyControl = new RegExp(control, 'g');

/** A JSON document whose strings hold none of these characters as they are, which it may: its parser sees no difference. */
export const forJson = (document: string): string =>
  document.replace(everyControl, (character) =>
    character === '\n' ? character : `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );

/** Longest text that stands beside a spinner, in characters: it is drawn again many times a second. */
const longestCaption = 200;

/** One short line without colours. */
export const caption = (text: string): string =>
  safeLine(text.slice(0, longestCaption).replaceAll('\n', ' '), false);
