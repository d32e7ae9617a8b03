import { escaped } from '../../contract/index.js';

/**
 * Cleans text from outside for a terminal. A terminal acts on control sequences: they can write the clipboard, change the
 * title, or move the cursor over earlier lines. A log needs only colours.
 */

/** `ESC [` with parameters and a final character, which is `m` for colours (SGR). */
const csi = '\\u001b\\[[0-?]*[ -/]*[@-~]';
/** OSC, DCS, SOS, PM and APC with their text, up to BEL or ST. */
const withText = '\\u001b[\\]PX^_][^\\u0007\\u001b\\u009c]*(?:\\u0007|\\u001b\\\\|\\u009c)';
/** Short sequences, such as `ESC c`, which resets the terminal. */
const short = '\\u001b[ -/]+[0-~]|\\u001b[0-OQ-WYZ\\\\`-~]';
/** All control characters except tab, U+2028 and U+2029, and the characters that change the direction of text. */
const control =
  '[\\u0000-\\u0008\\u000a-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]';

const unsafe = new RegExp(`${csi}|${withText}|${short}|${control}`, 'g');
const hasUnsafe = new RegExp(control);
/** Whether a control sequence is a colour, and not suspiciously long. */
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
 * Text that is safe for a terminal. Control sequences are removed, except colours, which end with their line; a single control
 * character is shown as `\x07`. Line feeds stay: text from outside was put on one line before.
 */
export const forTerminal = (text: string): string =>
  text
    .split('\n')
    .map((line) => safeLine(line, true))
    .join('\n');

const everyControlButLineFeed = new RegExp(`(?!\n)${control}`, 'g');

/** A JSON document in which these characters are escaped in strings; a parser reads the same values. */
export const forJson = (document: string): string =>
  document.replace(
    everyControlButLineFeed,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );

/** Maximum length of a drawn line, in characters: it is redrawn many times a second. */
const maxCaption = 500;

/** Makes a text one short line without colours. */
export const caption = (text: string): string =>
  safeLine(text.slice(0, maxCaption).replaceAll('\n', ' '), false);
