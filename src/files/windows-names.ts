/** Names of devices on Windows, in any directory and with any extension. */
const deviceName = /^(con|prn|aux|nul|com[\d¹²³]|lpt[\d¹²³]|conin\$|conout\$) *(\.|$)/i;

// biome-ignore lint/suspicious/noControlCharactersInRegex: Windows takes none of them
const forbidden = /[<>:"|?*\\\u0000-\u001f]/g;

/** Characters that Windows drops from the end of a name. */
const droppedEnd = /[. ]+$/;

/** The closest name that is possible on Windows: `T1_mask.nii`, `_aux.nii.gz`. */
export function windowsName(name: string): string {
  const plain = name.replace(forbidden, '_').replace(droppedEnd, (end) => '_'.repeat(end.length));
  return deviceName.test(plain) ? `_${plain}` : plain;
}

/** Whether a file on Windows can have this name. */
export const isWindowsName = (name: string): boolean => windowsName(name) === name;
