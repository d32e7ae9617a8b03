import { maxNameBytes } from './free-name.js';
import { isWindowsName } from './windows-names.js';

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused
const controls = /[\u0000-\u001f\u007f]/;

/**
 * Whether a name from outside can be a file's name: it is not a path, not too long, and has no control characters. The
 * rules of Windows apply on Windows alone.
 */
export function isSafeName(name: string, platform: NodeJS.Platform = process.platform): boolean {
  return (
    name !== '' &&
    name !== '.' &&
    name !== '..' &&
    Buffer.byteLength(name) <= maxNameBytes &&
    !controls.test(name) &&
    !/[/\\]/.test(name) &&
    (platform !== 'win32' || isWindowsName(name))
  );
}

/** A key that is equal for names which some file systems treat as the same. */
export const foldedName = (name: string): string => name.normalize('NFC').toLowerCase();
