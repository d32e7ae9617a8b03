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
 * What may leave the machine. Files that the user names, and those in directories that they name, may leave unchanged. Anything
 * reached only through a link, a header or the metadata of a store may come from a stranger, so it has to satisfy the rules in
 * one table here.
 */

/** The reason for sending a file. */
export type Role =
  /** A path names it, or the directory in which it lies. */
  | 'named'
  /** Only a header names the file, as its voxels. */
  | 'data'
  /** The file lies in a Zarr store. */
  | 'key';

export interface Candidate {
  readonly role: Role;
  readonly path: string;
  /** Whether it is a link, or was reached by a link out of the named directory. */
  readonly isLink: boolean;
  /** The real path of the named directory, or of the directory of a named file; for `key`, that of the store. */
  readonly root: string;
  /** The header's description of its data files, and their number; null if the header has no description. Only for `data`. */
  readonly layout?: DataLayout | null;
  readonly count?: number;
  /** Whether the metadata of the store implies this file. Only for `key`. */
  readonly isImplied?: boolean;
}

/** Whether a file may leave. */
export type Verdict =
  | {
      readonly leaves: true;
      /** The target of a link that was followed out of the named directory; otherwise null. */
      readonly target: string | null;
    }
  /** The reason, worded to follow the path in a sentence. */
  | { readonly leaves: false; readonly why: string };

/** A link that was followed out of the named directory, and its target. */
export interface Followed {
  readonly path: string;
  readonly target: string;
}

/** Where a path leads after following links. */
interface Place {
  readonly is: 'inside' | 'annex' | 'outside';
  readonly target: string;
}

const annex = /^(.*)[/\\]\.git[/\\](?:modules[/\\].+[/\\])?annex[/\\]objects[/\\]/;

/** Hidden files that belong to a store. */
const metadata = /^\.z(array|group|attrs|metadata)$/;

/** Whether a relative path does not lead above its start. */
const staysBelow = (relative: string): boolean =>
  relative !== '..' && !relative.startsWith(`..${path.sep}`) && !path.isAbsolute(relative);

/**
 * Where a path leads: inside the root directory and not to something hidden there; to git-annex content of the repository that
 * contains the root; or elsewhere.
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

/** Returns a reason against a candidate, worded to follow its path; null if there is none. */
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

/** Kinds of content other than voxels, by the first bytes of a file, in the order in which they are tested. */
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

/** Minimum number of different characters in a text: voxels of one value are not text. */
const minDifferent = 4;

/** Whether bytes are UTF-8 text: without control characters, and not just a few repeated values. */
function isText(start: Buffer): boolean {
  // The last character may be cut off.
  const text = start.toString('utf8').replace(/\ufffd$/, '');
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what no text has
  const isPlain = !/[\u0000-\u0008\u000b\u000e-\u001f\u007f\ufffd]/.test(text);
  return isPlain && new Set(text).size >= minDifferent;
}

/** The kind of a file without voxels, by its first bytes: `a PDF document`; null if it is not recognised. */
const otherContent = (start: Buffer): string | null =>
  others.find(({ begins }) => begins(start))?.what ?? null;

/** Number of bytes read to recognise content. */
const startBytes = 4096;

const notAnythingElse: Rule = ({ path: file, layout }) => {
  const start = firstBytes(file, startBytes);
  const what = layout?.isPacked !== false && isPacked(start) ? null : otherContent(start);
  return what === null ? null : `is ${what}, although a header names it for its voxels; ${remedy}`;
};

/** Whether bytes are the beginning of gzip, zlib or bzip2 data. */
const isPacked = (start: Buffer): boolean =>
  start.length > 2 &&
  ((start[0] === 0x1f && start[1] === 0x8b) ||
    (start[0] === 0x78 && start.readUInt16BE(0) % 31 === 0) ||
    start.toString('latin1', 0, 3) === 'BZh');

/** Unpacked size of a file, counted up to `max` + 1 bytes, and its first bytes; null if the file is damaged. */
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
  // bzip2 cannot be unpacked here. Only AFNI uses it, and an AFNI header does not choose the name of its voxel file.
  if (isByName && start.toString('latin1', 0, 3) === 'BZh') return null;
  const isZipped = layout.isPacked || isByName;
  const found = isZipped ? await unpacked(file, wanted) : { size: statSync(file).size, start };
  if (found === null) return 'cannot be unpacked: it is damaged, or is not what its header says';
  const what = isZipped ? otherContent(found.start) : null;
  if (what !== null) return `is ${what}, although a header names it for its voxels; ${remedy}`;
  // The header of a pair may retain the offset that it had when header and voxels were one file.
  if (found.size === wanted || (layout.isPacked === null && found.size === layout.voxels)) return null;
  const has = found.size > wanted && isZipped ? 'more' : sizeInWords(found.size);
  return `has ${has}${isZipped ? ' unpacked' : ''}, and its header says ${sizeInWords(wanted)}; ${remedy}`;
};

/** Formats a size so that a difference of one byte is visible. */
const sizeInWords = (bytes: number): string =>
  bytes < 1e6 ? `${bytes} bytes` : `${formatBytes(bytes)} (${bytes} bytes)`;

const implied: Rule = ({ isImplied }) => (isImplied ? null : 'is not described by the metadata of the store');

/** The table of rules that a file must satisfy, by the reason for sending it. */
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

/** What is sent of a directory that is a data set or a Zarr store. */
export interface Tree {
  /** Files, and empty directories. */
  readonly files: readonly ListedFile[];
  /** Paths in stores that their metadata do not describe: they are not sent. */
  readonly strays: readonly string[];
  /** Links that were followed out of the directory. */
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

  /**
   * Whether a file or directory in the tree may leave. If not, it becomes an obstacle, unless the store is complete without it.
   */
  async leaves(candidate: Omit<Candidate, 'root'>): Promise<boolean> {
    const verdict = await verdictOn({ ...candidate, root: this.root });
    if (!verdict.leaves) {
      if (candidate.isImplied === false) this.strays.push(candidate.path);
      else this.obstacles.add(candidate.path, verdict.why);
    } else if (verdict.target !== null) this.followed.push({ path: candidate.path, target: verdict.target });
    return verdict.leaves;
  }
}
