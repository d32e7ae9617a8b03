import path from 'node:path';
import { maxEntries, quoteName } from '../contract/index.js';
import { Notes, TimeSlice } from '../files/index.js';
import { addDirectories, entryPath, LenientPlaces, type PlaceOptions } from './entry-places.js';
import { ArchiveError } from './errors.js';
import { ArchiveSource, archiveEnd, entryName, readDirectory, type ZipEntry } from './read-archive.js';

/** Stored and deflated, the methods that every zip program writes. */
const knownMethods = new Set([0, 8]);
/** Other methods that an archive may use (APPNOTE, 4.4.5). */
const otherMethods: Readonly<Record<number, string>> = {
  9: 'Deflate64',
  12: 'bzip2',
  14: 'LZMA',
  20: 'Zstandard',
  93: 'Zstandard',
  95: 'XZ',
  98: 'PPMd',
};
const encryptedFlag = 0x1;
/** The method code for entries encrypted with AES; their real method is stored elsewhere. */
const encryptedMethod = 99;
const fileTypeMask = 0o170000;
const regularFile = 0o100000;
const directoryType = 0o040000;

/** An entry and its destination. */
export interface Target {
  readonly entry: ZipEntry;
  readonly path: string;
  readonly isDirectory: boolean;
}

export interface PlanOptions extends PlaceOptions {
  /** Whether an entry whose name is impossible here is renamed or left out; otherwise the archive is refused. */
  readonly lenient: boolean;
  /** Lets other work run while entries are planned, since an archive may have 200,000. */
  readonly slice: TimeSlice;
}

/** Matches what macOS adds to archives. A `._scan.nii.gz` would be taken for a volume. */
const ofMacOs = /(^|[/\\])(__MACOSX([/\\]|$)|\._[^/\\]*$|\.DS_Store$)/;

/**
 * Chooses the path of every entry. An entry that must not be written causes the whole archive to be refused before anything is
 * written. Files that macOS added to an uploaded archive are left out, as they are when a directory is sent.
 * @throws ArchiveError
 */
export async function planEntries(all: readonly ZipEntry[], options: PlanOptions): Promise<Target[]> {
  const entries = options.lenient ? all : all.filter((entry) => !ofMacOs.test(entryName(entry)));
  const names: string[] = [];
  const seen = new Set<string>();
  for (const entry of entries) {
    await options.slice.pause();
    const name = options.lenient ? entryName(entry) : uploadedName(entryName(entry));
    if (name === itself && entry.uncompressedSize > 0) throw impossible(entryName(entry));
    checkKind(entry, name);
    names.push(name);
    if (name === itself) continue;
    if (seen.has(name)) throw new ArchiveError('unsafe', `it has two entries named ${quoteName(name)}`);
    seen.add(name);
  }
  const places = options.lenient
    ? new LenientPlaces(options, names).all()
    : await strictPlaces(options, names);
  return entries.flatMap((entry, index) => {
    const place = places[index];
    return place ? [{ entry, path: place, isDirectory: isDirectoryName(names[index] ?? '') }] : [];
  });
}

const isDirectoryName = (name: string): boolean => name.endsWith('/');

/** The entry name that stands for the archived directory itself. */
const itself = './';

/**
 * The name of an entry in an uploaded archive. Empty parts and `.` are dropped, and a backslash counts as a separator, because
 * some Windows programs write it. The names in a result stay unchanged, because its files may really have such names.
 */
function uploadedName(name: string): string {
  if (!/\\|\/\/|(^|\/)\.(\/|$)/.test(name)) return name;
  const parts = name.split(/[/\\]/);
  const named = parts.filter((part, index) => part !== '.' && (part !== '' || index === 0));
  if (named.length === 0) return itself;
  return named.join('/') + (/^\.?$/.test(parts.at(-1) ?? '') ? '/' : '');
}

const impossible = (name: string): ArchiveError =>
  new ArchiveError('unsafe', `its entry ${quoteName(name)} has a name that cannot be extracted`);

function checkKind(entry: ZipEntry, name: string): void {
  const type = (entry.externalFileAttributes >>> 16) & fileTypeMask;
  if (type !== 0 && type !== (isDirectoryName(name) ? directoryType : regularFile)) {
    throw new ArchiveError('unsafe', `its entry ${quoteName(name)} is a link or a device, not a file`);
  }
  const { compressionMethod: method } = entry;
  if (entry.flags & encryptedFlag || method === encryptedMethod) {
    throw new ArchiveError(
      'corrupt',
      `its entry ${quoteName(name)} is encrypted; make the archive again without a password`,
    );
  }
  if (!knownMethods.has(method)) {
    throw new ArchiveError(
      'corrupt',
      `its entry ${quoteName(name)} is compressed with ${otherMethods[method] ?? `method ${method}`}, which is not supported; ` +
        "make the archive again with Deflate, as 'zip -r' does",
    );
  }
}

/**
 * Chooses the paths of entries whose names must all be possible here.
 * @returns null for the root itself
 */
async function strictPlaces(options: PlanOptions, names: readonly string[]): Promise<(string | null)[]> {
  const { root, reserved, platform, slice } = options;
  const kept = new Set(reserved.map((name) => path.join(root, name)));
  const taken = new Set<string>();
  const places: (string | null)[] = [];
  for (const name of names) {
    await slice.pause();
    if (name === itself) {
      places.push(null);
      continue;
    }
    const place = entryPath(root, name, platform);
    if (place === null || kept.has(place)) throw impossible(name);
    if (taken.has(place)) throw new ArchiveError('unsafe', `it has two entries named ${quoteName(name)}`);
    taken.add(place);
    places.push(place);
  }
  return places;
}

/** Disk space in bytes that a directory takes, and the least that a file takes. */
const block = 4096;

/** The disk space that targets need. */
export interface DiskCost {
  /** Number of files and directories. A single short entry name may need sixty directories. */
  readonly entries: number;
  /** Total size of the files in bytes, as stated in the archive. */
  readonly content: number;
  /** Additional bytes: directories, and the unused end of each file's last block. */
  readonly overhead: number;
}

/**
 * The disk space needed to extract these targets under `root`.
 * @throws ArchiveError for more than `maxEntries` files and directories
 */
export async function diskCost(
  targets: readonly Target[],
  root: string,
  maxEntries: number,
  slice: TimeSlice,
): Promise<DiskCost> {
  const directories = new Set<string>();
  let files = 0;
  let content = 0;
  let overhead = 0;
  for (const target of targets) {
    await slice.pause();
    const size = target.entry.uncompressedSize;
    let directory = target.path;
    content += size;
    if (!target.isDirectory) {
      files += 1;
      overhead += Math.max(0, block - size);
      directory = path.dirname(directory);
    }
    addDirectories(directories, directory, root);
    if (files + directories.size > maxEntries) {
      throw new ArchiveError(
        'tooMany',
        `it extracts to more files and directories than the ${maxEntries} allowed`,
      );
    }
  }
  const entries = files + directories.size;
  return { entries, content, overhead: overhead + directories.size * block };
}

/**
 * Maximum number of entries that are checked before an upload, since unzipper takes 3 KB of memory for each. The server checks
 * archives of any size.
 */
const maxLookedThrough = 50_000;

/**
 * Checks an archive's directory by the rules of the server that will extract it, so that a person learns of an encrypted entry,
 * for example, before the upload.
 * @returns whether the archive contains a file, and not only directories
 * @throws ArchiveError if the archive cannot be read or must not be extracted
 */
export async function checkArchive(archive: string): Promise<boolean> {
  await using source = await ArchiveSource.open(archive);
  if ((await archiveEnd(source.file)).entries > maxLookedThrough) return true;
  const slice = new TimeSlice();
  const entries = await readDirectory(source, maxEntries);
  const targets = await planEntries(entries, {
    root: '/',
    reserved: [],
    // A server will extract the archive, and servers run on Linux, whatever this system is.
    platform: 'linux',
    lenient: false,
    notes: new Notes(),
    slice,
  });
  return targets.some(({ isDirectory }) => !isDirectory);
}
