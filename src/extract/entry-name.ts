import { isUtf8 } from 'node:buffer';
import type { ZipEntry } from './zip-entry.js';

/** Code page 437 from byte 0x80 on: the encoding of zip names that are not marked as UTF-8. */
const upper =
  'ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u00a0';

/**
 * The name of an entry. Many programs write UTF-8 without marking it, so a name that is valid UTF-8 is read as that, and
 * any other name as the format says.
 */
export function entryName(entry: ZipEntry): string {
  const bytes = entry.pathBuffer;
  // unzipper gives an empty string instead of an empty buffer.
  if (bytes.length === 0) return '';
  if (isUtf8(bytes)) return entry.path;
  return Array.from(bytes, (byte) => (byte < 0x80 ? String.fromCharCode(byte) : upper[byte - 0x80])).join('');
}
