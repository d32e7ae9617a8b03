/** What the first bytes of a file show that holds no voxels. In the order in which it is looked for. */
const others: readonly { readonly what: string; readonly begins: (start: Buffer) => boolean }[] = [
  { what: 'a PDF document', begins: startsWith('%PDF-') },
  { what: 'a zip archive', begins: startsWith('PK\u0003\u0004', 'PK\u0005\u0006') },
  {
    what: 'a picture',
    begins: startsWith('\u0089PNG\r\n', '\u00ff\u00d8\u00ff', 'GIF87a', 'GIF89a', 'II*\0', 'MM\0*', '8BPS'),
  },
  {
    what: 'a packed file',
    begins: startsWith(
      '\u001f\u008b\u0008',
      'BZh',
      '\u00fd7zXZ\0',
      '7z\u00bc\u00af',
      '(\u00b5/\u00fd',
      'Rar!',
    ),
  },
  { what: 'a tar archive', begins: (start) => start.toString('latin1', 257, 262) === 'ustar' },
  { what: 'a database', begins: startsWith('SQLite format 3\0') },
  {
    what: 'a document of an office program',
    begins: startsWith('\u00d0\u00cf\u0011\u00e0\u00a1\u00b1\u001a\u00e1'),
  },
  {
    what: 'a program',
    begins: startsWith('\u007fELF', '\u00cf\u00fa\u00ed\u00fe', '\u00ca\u00fe\u00ba\u00be'),
  },
  {
    what: 'sound or video',
    begins: (start) =>
      startsWith('RIFF', 'OggS', 'ID3', 'fLaC')(start) || start.toString('latin1', 4, 8) === 'ftyp',
  },
  { what: 'text', begins: isText },
];

function startsWith(...starts: readonly string[]): (bytes: Buffer) => boolean {
  return (bytes) => starts.some((each) => bytes.toString('latin1', 0, each.length) === each);
}

/** How many different bytes a text has at least: voxels of one value are not text. */
const minDifferent = 4;

/** Whether bytes are text in UTF-8: no control characters, and not a few values over and over. */
function isText(start: Buffer): boolean {
  // A character may be cut off at the end.
  const text = start.toString('utf8').replace(/\ufffd$/, '');
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what no text has
  const isPlain = !/[\u0000-\u0008\u000b\u000e-\u001f\u007f\ufffd]/.test(text);
  return isPlain && new Set(text).size >= minDifferent;
}

/** What a file is that holds no voxels, by its first bytes: `a PDF document`; null where these show nothing. */
export const otherContent = (start: Buffer): string | null =>
  others.find(({ begins }) => begins(start))?.what ?? null;
