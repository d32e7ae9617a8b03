import { constants, linkSync, mkdirSync, renameSync } from 'node:fs';
import { copyFile, open, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { ArchiveError, archiveEnd, extractArchive } from '../../archive/index.js';
import {
  type Field,
  FieldError,
  oneLine,
  quoteName,
  ServiceError,
  volumeSuffix,
} from '../../contract/index.js';
import { errorCode, freeName, isSafeName, type Release, TimeSlice } from '../../files/index.js';
import type { JobFiles, LinkedInput } from '../jobs/index.js';
import {
  DiskWatch,
  diskSpace,
  type MakeRoom,
  noInodes,
  noSpace,
  uploadFault,
  withSpace,
} from './disk-space.js';
import { extractionLimits, type SubmissionLimits, type UploadTurns } from './limits.js';
import type { ExtractedSize, ReceivedFile } from './read-form.js';

/** The last part of a file's name, after the separators of any system. */
function plainName(file: ReceivedFile): string {
  const name = file.name.split(/[/\\]/).at(-1) ?? '';
  const isVolume = name.endsWith(volumeSuffix);
  const plain = isVolume ? name.slice(0, -volumeSuffix.length) : name;
  if (!isSafeName(plain)) {
    throw new FieldError(file.field, `has a file whose name cannot be used: ${quoteName(file.name)}`);
  }
  // A name may begin with a dash, because the app's command line has absolute paths, which cannot be read as flags.
  return plain;
}

/** What the caller provides while files are placed. */
export interface PlacingAsks {
  /**
   * Called with the size of the extracted content of all archives as soon as it is known. Throws if that may not be kept.
   */
  readonly onExtract: (bytes: number) => void;
  /** Frees disk space before something that does not fit is refused. */
  readonly makeRoom: MakeRoom;
  readonly turns: UploadTurns;
  /** Whether an archive that has been extracted before may wait until the job begins. */
  readonly mayPostpone: boolean;
}

/** The state of placing one upload's files. */
interface Placing extends PlacingAsks {
  /** What is left of the limits for its archives together. */
  readonly left: ReturnType<typeof extractionLimits>;
  readonly disk: DiskWatch;
  /** Aborted with the error that ends the upload. */
  readonly stop: AbortController;
  /** Bytes of the extracted files. */
  extracted: number;
  readonly linked: LinkedInput[];
  /** Where archives wait to be extracted. */
  readonly waiting: string;
}

/** The files of an upload in their places. */
export interface Placed {
  readonly files: JobFiles;
  readonly linked: readonly LinkedInput[];
  /** Bytes of the content extracted from its archives. */
  readonly extracted: number;
}

/** Turns an ArchiveError into a ServiceError. */
function archiveFault(cause: ArchiveError, file: ReceivedFile, advice: string): ServiceError {
  const code = cause.fault === 'tooLarge' || cause.fault === 'tooMany' ? 'uploadTooLarge' : 'badRequest';
  const detail = `Archive ${quoteName(file.name)} cannot be extracted: ${oneLine(cause.message)}`;
  return new ServiceError(code, cause.fault === 'tooLarge' ? detail + advice : detail, { cause });
}

/** An archive with more entries than this counts as large, because each entry takes 3 KB of memory. */
const manyEntries = 20_000;

/** Waits for a turn if the archive is large: those are extracted one after the other. */
async function turnFor(file: ReceivedFile, { turns, stop }: Placing): Promise<Release> {
  await using archive = await open(file.path);
  const { entries } = await archiveEnd(archive);
  return entries > manyEntries ? turns.largeArchives.take(stop.signal) : () => {};
}

/**
 * Leaves an archive to be extracted before the job begins. Its content is one that was extracted before, so what is left to check
 * is its size.
 * @returns false if it is to be extracted now, or refused
 */
function postpone(file: ReceivedFile, destination: string, placing: Placing): boolean {
  const { left, linked, waiting, extracted, mayPostpone, onExtract } = placing;
  const { extracts, length = 0 } = file.upload ?? {};
  if (!mayPostpone || !extracts || length < leastLinked) return false;
  const { entries, bytes, content } = extracts;
  const space = diskSpace(path.dirname(file.path));
  if (entries > Math.min(manyEntries, left.maxEntries, space.files)) return false;
  if (bytes > Math.min(left.maxBytes, space.bytes)) return false;
  onExtract(extracted + content);
  mkdirSync(waiting, { recursive: true, mode: 0o700 });
  const link = path.join(waiting, String(linked.length));
  if (!tryLink(file.path, link)) return false;
  linked.push({ file: link, directory: destination });
  took(extracts, placing);
  return true;
}

/** Counts what an archive takes. */
function took({ entries, bytes, content }: ExtractedSize, placing: Placing): void {
  placing.left.maxBytes -= bytes;
  placing.left.maxEntries -= entries;
  placing.extracted += content;
}

/** Extracts an archive, and tries again if it did not fit on the disk and room could be made. */
async function extract(file: ReceivedFile, destination: string, placing: Placing): Promise<void> {
  if (postpone(file, destination, placing)) return;
  await withSpace(
    async () => {
      if (placing.stop.signal.aborted || !(await placing.makeRoom())) return false;
      await rm(destination, { recursive: true, force: true });
      return true;
    },
    () => tryExtract(file, destination, placing),
  );
  if (!file.upload) await rm(file.path);
}

/** A file with fewer bytes is copied at once: that takes no longer than a link of which notes are kept. */
const leastLinked = 1 << 20;

/** Gives the job an upload as its file: a large one as a hard link, in place of which it gets a file of its own before its app runs. */
async function giveKept(file: ReceivedFile, target: string, placing: Placing): Promise<void> {
  const { size } = await stat(file.path);
  if (size >= leastLinked && tryLink(file.path, target)) {
    placing.linked.push({ file: target, directory: null });
    return;
  }
  await withSpace(placing.makeRoom, () => copyFile(file.path, target, constants.COPYFILE_FICLONE));
  await placing.disk.wrote(size);
}

/** Returns whether the file system can do it, and the file has few enough names. */
function tryLink(file: string, target: string): boolean {
  try {
    linkSync(file, target);
    return true;
  } catch (cause) {
    if (['EPERM', 'ENOTSUP', 'ENOSYS', 'EMLINK', 'EXDEV'].includes(errorCode(cause))) return false;
    throw cause;
  }
}

/** Extracts an archive within the remaining limits, as long as the disk keeps its reserve. */
async function tryExtract(file: ReceivedFile, destination: string, placing: Placing): Promise<void> {
  const { left, disk, stop, extracted, onExtract } = placing;
  const { signal } = stop;
  const what = `what archive ${quoteName(file.name)} extracts to`;
  const found = diskSpace(path.dirname(file.path));
  let taken: ExtractedSize = { entries: 0, bytes: 0, content: 0 };
  let seen = 0;
  const onProgress = (bytes: number) => {
    disk.wrote(bytes - seen).catch((cause) => stop.abort(cause));
    seen = bytes;
    if (bytes <= taken.content) return;
    // The archive contains more than it states.
    try {
      onExtract(extracted + bytes);
    } catch (cause) {
      stop.abort(cause);
    }
  };
  let release: Release = () => {};
  try {
    release = await turnFor(file, placing);
    const maxBytes = Math.min(left.maxBytes, Math.max(0, found.bytes));
    const maxEntries = Math.min(left.maxEntries, Math.max(0, found.files));
    const onPlan = (entries: number, bytes: number, content: number) => {
      onExtract(extracted + content);
      taken = { entries, bytes, content };
    };
    const options = { maxBytes, maxEntries, onPlan, onProgress, signal };
    await extractArchive(file.path, destination, options);
    took(taken, placing);
    if (file.upload) file.upload.extracts = taken;
  } catch (cause) {
    if (signal.aborted) throw signal.reason;
    if (!(cause instanceof ArchiveError)) throw cause;
    if (cause.fault === 'tooLarge' && found.bytes < left.maxBytes) throw noSpace(found, what);
    if (cause.fault === 'tooMany' && found.files < left.maxEntries) throw noInodes(what);
    throw archiveFault(cause, file, left.advice);
  } finally {
    release();
  }
}

/**
 * Places the files of one group in a directory of its own, in upload order. Renames synchronously with pauses, because
 * the thread pool takes five times as long.
 */
async function placeGroup(
  group: readonly ReceivedFile[],
  directory: string,
  placing: Placing,
): Promise<string[]> {
  placing.stop.signal.throwIfAborted();
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 });
  } catch (cause) {
    throw uploadFault(cause);
  }
  const taken = new Set<string>();
  const counts = new Map<string, number>();
  const paths: string[] = [];
  const slice = new TimeSlice();
  for (const file of group) {
    // Files of one group that share a name get different ones: `ct.nii.gz`, `ct_1.nii.gz`.
    const name = freeName(plainName(file), counts, (each) => taken.has(each));
    taken.add(name);
    const target = path.join(directory, name);
    if (file.name.endsWith(volumeSuffix)) await extract(file, target, placing);
    else if (file.upload) await giveKept(file, target, placing);
    else renameSync(file.path, target);
    await slice.pause();
    paths.push(target);
  }
  return paths;
}

/**
 * Moves the files of a form into the job's input directory: a folder for each group, with archives extracted (docs/http.md, Submission).
 * @throws ServiceError 400, 413 or 507 for an archive, FieldError for a name
 */
export async function placeFiles(
  groups: ReadonlyMap<Field, readonly (readonly ReceivedFile[])[]>,
  input: string,
  limits: SubmissionLimits,
  asks: PlacingAsks,
): Promise<Placed> {
  const placing: Placing = {
    left: extractionLimits(limits),
    disk: new DiskWatch(path.dirname(input), asks.makeRoom),
    stop: new AbortController(),
    extracted: 0,
    linked: [],
    waiting: path.join(input, '.archives'),
    ...asks,
  };
  const placed: Record<string, string[][]> = {};
  for (const [field, fieldGroups] of groups) {
    const base = path.join(input, field.name);
    const paths: string[][] = [];
    for (const [index, group] of fieldGroups.entries()) {
      if (field.kind === 'archive' && group[0]) {
        await extract(group[0], base, placing);
        paths.push([base]);
      } else {
        paths.push(await placeGroup(group, path.join(base, `g${index}`), placing));
      }
    }
    if (paths.length > 0) placed[field.name] = paths;
  }
  return { files: placed, linked: placing.linked, extracted: placing.extracted };
}
