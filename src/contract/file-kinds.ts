import { volumeSuffix } from './archives.js';

/** What is known about a file before it is sent. */
export interface SentContent {
  /** The name under which the app gets it, or that name with the suffix of a packed directory. */
  readonly name: string;
  /** Its first bytes, up to `kindBytes`; empty if they are not known. */
  readonly start: () => Uint8Array;
}

/** Number of bytes at the start of a file that are enough to recognise its kind. */
export const kindBytes = 1024;

interface Kind {
  readonly what: string;
  /** Endings of names, in lower case. */
  readonly endings: readonly string[];
  /** First bytes of such files. */
  readonly begins?: readonly string[];
}

/** Kinds of files that hold no volume. */
const kinds: readonly Kind[] = [
  {
    what: 'a picture',
    endings: ['png', 'jpg', 'jpeg', 'gif', 'bmp', 'webp'],
    begins: ['\u0089PNG\r\n', '\u00ff\u00d8\u00ff', 'GIF87a', 'GIF89a'],
  },
  { what: 'a table', endings: ['csv', 'tsv', 'xls', 'xlsx', 'ods'] },
  {
    what: 'a document',
    endings: ['pdf', 'doc', 'docx', 'txt', 'md', 'rtf', 'htm', 'html', 'xml', 'json', 'yml', 'yaml'],
    begins: ['%PDF-'],
  },
  {
    what: 'an archive',
    endings: ['zip', 'tar', 'tgz', '7z', 'rar'],
    begins: ['PK\u0003\u0004', '7z\u00bc\u00af', 'Rar!'],
  },
];

/** DICOM objects without voxels, by SOP class. RT Dose and Segmentation objects are not listed, because they have voxels. */
const objects: readonly (readonly [RegExp, string])[] = [
  [/^481\.3$/, 'a structure set of DICOM (RTSTRUCT)'],
  [/^481\.(?!2$)/, 'a plan or record of DICOM RT'],
  [/^88\./, 'a report of DICOM (SR)'],
  [/^104\./, 'a document in DICOM'],
  [/^11\./, 'a presentation state of DICOM'],
];

/** One character per byte. */
const textOf = (bytes: Uint8Array): string => String.fromCharCode(...bytes.subarray(0, kindBytes));

/** What kind of file this is if it cannot contain a volume, such as `a picture`; null for any other file. */
export function kindWithoutVolume({ name, start }: SentContent): string | null {
  const lower = name.toLowerCase();
  if (lower.endsWith(volumeSuffix)) return null;
  const ending = lower.slice(lower.lastIndexOf('.') + 1);
  const byName = lower.includes('.') ? kinds.find(({ endings }) => endings.includes(ending)) : undefined;
  if (byName) return byName.what;
  const text = textOf(start());
  if (text.slice(128, 132) === 'DICM') {
    const [, sopClass] = /1\.2\.840\.10008\.5\.1\.4\.1\.1\.([\d.]+)/.exec(text) ?? [];
    return objects.find(([pattern]) => sopClass !== undefined && pattern.test(sopClass))?.[1] ?? null;
  }
  // A NumPy archive begins like a zip file.
  if (ending === 'npz') return null;
  return kinds.find(({ begins }) => begins?.some((each) => text.startsWith(each)))?.what ?? null;
}
