import { isUtf8 } from 'node:buffer';
import type { File as ZipEntry } from 'unzipper';

/** The characters of the bytes from 0x80 on in code page 437, which zip has where it does not say UTF-8. */
const upper =
  'ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u00a0';

/**
 * An entry's name. unzipper takes every name for UTF-8, and many programs write that without saying so; what is not
 * UTF-8 is what the format says it is.
 */
export function entryName(entry: ZipEntry): string {
  // For no bytes unzipper has an empty string.
  const bytes = Buffer.from(entry.pathBuffer);
  if (isUtf8(bytes)) return entry.path;
  return Array.from(bytes, (byte) => (byte < 0x80 ? String.fromCharCode(byte) : upper[byte - 0x80])).join('');
}
