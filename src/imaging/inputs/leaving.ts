import { createReadStream, realpathSync, statSync } from 'node:fs';
import path from 'node:path';
import { createUnzip } from 'node:zlib';
import { type DataLayout, readStart } from '@remote-app/volumes/headers';
import type { ListedFile } from '../../archive/index.js';
import { formatBytes, quotePath } from '../../contract/index.js';
import { firstBytes } from '../../files/index.js';
import { type Obstacles, readingFault } from './entries.js';
import { isHidden, isVolumeContent, startsWith } from './formats.js';

/**
 * What may leave the machine. A file that a person names leaves as it is, and so does what lies in a directory that they
 * name. Everything that only something else leads to, which may come from a stranger (a link, a header, the metadata of a
 * store), is held against one table here.
 */

/** Why a file would leave. */
export type Role =
  /** A path names it, or the directory in which it lies. */
  | 'named'
  /** A header names it as a file with its voxels, and nobody else did. */
  | 'data'
  /** It lies in a store of Zarr. */
  | 'key';

export interface Candidate {
  readonly role: Role;
  readonly path: string;
  /** Whether it is a link, or lies behind one that leads out of what was named. */
  readonly isLink: boolean;
  /** The real path of the directory that was named, or in which the named file lies; of a key, that of its store. */
  readonly root: string;
  /** What the header says of its data files, and how many there are; null where it does not say it. For `data` alone. */
  readonly layout?: DataLayout | null;
  readonly count?: number;
  /** Whether the metadata of the store implies it. For `key` alone. */
  readonly isImplied?: boolean;
}

/** Whether a file leaves. */
export type Verdict =
  | {
      readonly leaves: true;
      /** Where a link leads that was followed out of what was named; null for any other. */
      readonly target: string | null;
    }
  /** The words for why, which follow its path in a sentence. */
  | { readonly leaves: false; readonly why: string };

/** A link that was followed out of what was named, and where it leads. */
export interface Followed {
  readonly path: string;
  readonly target: string;
}

/** Where a path leads, links followed. */
interface Place {
  readonly is: 'inside' | 'annex' | 'outside';
  readonly target: string;
}

const annex = /^(.*)[/\\]\.git[/\\](?:modules[/\\].+[/\\])?annex[/\\]objects[/\\]/;

/** Hidden files that belong to a store. */
const metadata = /^\.z(array|group|attrs|metadata)$/;

/** A relative path without the way to a directory above. */
const staysBelow = (relative: string): boolean =>
  relative !== '..' && !relative.startsWith(`..${path.sep}`) && !path.isAbsolute(relative);

/**
 * Where a path leads: inside a directory and not to something hidden in it; to the content that git-annex keeps in the
 * repository that has this directory; or elsewhere.
 */
function placeOf(file: string, root: string): Place {
  const target = realpathSync.native(file);
  const relative = path.relative(root, target);
  const hidden = relative.split(path.sep).filter(isHidden);
  if (staysBelow(relative) && hidden.every((name) => metadata.test(name))) return { is: 'inside', target };
  const repository = annex.exec(target)?.[1];
  const isOwn = repository !== undefined && staysBelow(path.relative(repository || path.sep, root));
  return { is: isOwn ? 'annex' : 'outside', target };
}

/** Whether a directory leads out of one that was named, or to something hidden in it. */
export const leadsElsewhere = (directory: string, root: string): boolean =>
  placeOf(directory, root).is !== 'inside';

/** A reason against a candidate, in words that follow its path; null for none. */
type Rule = (candidate: Candidate, place: Place) => string | null | Promise<string | null>;

const leadsOut = ({ target }: Place): string => `leads to ${quotePath(target)}, outside of what was named,`;

const insideOrVolume: Rule = async ({ path: file }, place) => {
  if (place.is !== 'outside') return null;
  const { bytes, dicom } = await readStart(file);
  if (dicom !== null || isVolumeContent(bytes)) return null;
  return `${leadsOut(place)} and is not recognised as a volume; name that file itself to send it`;
};

const inside: Rule = (_, place) =>
  place.is === 'outside' ? `${leadsOut(place)} and is followed only to whole volumes` : null;

const remedy = 'name it as well if it is meant';

const notHidden: Rule = ({ path: file }) =>
  isHidden(path.basename(file)) ? `is a hidden file, which a header names for its voxels; ${remedy}` : null;

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
const otherContent = (start: Buffer): string | null =>
  others.find(({ begins }) => begins(start))?.what ?? null;

/** Bytes by which content is recognised. */
const startBytes = 4096;

const notAnythingElse: Rule = ({ path: file, layout }) => {
  const start = firstBytes(file, startBytes);
  const what = layout?.isPacked !== false && isPacked(start) ? null : otherContent(start);
  return what === null ? null : `is ${what}, although a header names it for its voxels; ${remedy}`;
};

/** Whether a file begins as gzip, zlib or bzip2 do. */
const isPacked = (start: Buffer): boolean =>
  start.length > 2 &&
  ((start[0] === 0x1f && start[1] === 0x8b) ||
    (start[0] === 0x78 && start.readUInt16BE(0) % 31 === 0) ||
    start.toString('latin1', 0, 3) === 'BZh');

/** How many bytes a packed file has unpacked, at most one more than these, and its first ones; null if it is damaged. */
async function unpacked(file: string, max: number): Promise<{ size: number; start: Buffer } | null> {
  let size = 0;
  let start = Buffer.alloc(0);
  const source = createReadStream(file);
  const unzip = source.on('error', (error) => unzip.destroy(error)).pipe(createUnzip());
  try {
    for await (const chunk of unzip as AsyncIterable<Buffer>) {
      if (start.length < startBytes) start = Buffer.concat([start, chunk]).subarray(0, startBytes);
      size += chunk.length;
      if (size > max) break;
    }
    return { size: Math.min(size, max + 1), start };
  } catch {
    return null;
  } finally {
    source.destroy();
  }
}

const sizeOfHeader: Rule = async ({ path: file, layout, count = 1 }) => {
  if (!layout || layout.before === null)
    return `is named by a header that does not say how many bytes it has; ${remedy}`;
  const wanted = layout.before + layout.voxels / count;
  const start = firstBytes(file, startBytes);
  const isByName = layout.isPacked === null && /\.(gz|bz2)$/i.test(file);
  // Nothing here unpacks bzip2. Only AFNI's halves have it, whose names the header does not choose.
  if (isByName && start.toString('latin1', 0, 3) === 'BZh') return null;
  const isZipped = layout.isPacked || isByName;
  const found = isZipped ? await unpacked(file, wanted) : { size: statSync(file).size, start };
  if (found === null) return 'cannot be unpacked: it is damaged, or is not what its header says';
  const what = isZipped ? otherContent(found.start) : null;
  if (what !== null) return `is ${what}, although a header names it for its voxels; ${remedy}`;
  // The header of a pair may have the offset that it had in one file with its voxels.
  if (found.size === wanted || (layout.isPacked === null && found.size === layout.voxels)) return null;
  const has = found.size > wanted && isZipped ? 'more' : sizeInWords(found.size);
  return `has ${has}${isZipped ? ' unpacked' : ''}, and its header says ${sizeInWords(wanted)}; ${remedy}`;
};

/** A size that can be told from one that differs by a byte. */
const sizeInWords = (bytes: number): string =>
  bytes < 1e6 ? `${bytes} bytes` : `${formatBytes(bytes)} (${bytes} bytes)`;

const implied: Rule = ({ isImplied }) =>
  isImplied ? null : 'is no part of the store, as its metadata describe it';

/** THE table: what must hold of a file, by why it would leave. */
const rules: Readonly<Record<Role, readonly Rule[]>> = {
  named: [insideOrVolume],
  data: [notHidden, inside, notAnythingElse, sizeOfHeader],
  key: [implied, inside],
};

/** Whether a file may leave the machine. A file that cannot be read may not. */
export async function verdictOn(candidate: Candidate): Promise<Verdict> {
  const { path: file, isLink, root } = candidate;
  try {
    const place: Place = isLink ? placeOf(file, root) : { is: 'inside', target: file };
    for (const rule of rules[candidate.role]) {
      const why = await rule(candidate, place);
      if (why !== null) return { leaves: false, why };
    }
    return { leaves: true, target: place.is === 'inside' ? null : place.target };
  } catch (cause) {
    return { leaves: false, why: readingFault(cause) };
  }
}

/** What is sent of a directory: of a data set, or of a store of Zarr. */
export interface Tree {
  /** Files, and empty directories. */
  readonly files: readonly ListedFile[];
  /** Paths in stores that their metadata do not describe: they are not sent. */
  readonly strays: readonly string[];
  /** Links that were followed out of it. */
  readonly followed: readonly Followed[];
}

/** Collects what is sent of a directory. */
export class TreeReader implements Tree {
  readonly files: ListedFile[] = [];
  readonly strays: string[] = [];
  readonly followed: Followed[] = [];

  /** @param root the real path of the directory */
  constructor(
    readonly root: string,
    protected readonly obstacles: Obstacles,
  ) {}

  /** Whether something in it leaves; what does not is an obstacle, unless its store can do without. */
  async leaves(candidate: Omit<Candidate, 'root'>): Promise<boolean> {
    const verdict = await verdictOn({ ...candidate, root: this.root });
    if (!verdict.leaves) {
      if (candidate.isImplied === false) this.strays.push(candidate.path);
      else this.obstacles.add(candidate.path, verdict.why);
    } else if (verdict.target !== null) this.followed.push({ path: candidate.path, target: verdict.target });
    return verdict.leaves;
  }
}
