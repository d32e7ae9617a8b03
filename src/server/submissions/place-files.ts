import { constants, mkdirSync, renameSync } from 'node:fs';
import { copyFile, open, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { ArchiveError, archiveEnd, extractArchive } from '../../archive/index.js';
import {
  type Field,
  FieldError,
  maxEntries,
  oneLine,
  quoteName,
  ServiceError,
  volumeSuffix,
} from '../../contract/index.js';
import { freeName, isSafeName, type Release, TimeSlice, type Turns } from '../../files/index.js';
import type { JobFiles } from '../jobs/index.js';
import { type Reservation, writeFault } from '../uploads/index.js';
import type { SubmissionLimits } from './limits.js';
import type { ReceivedFile } from './read-form.js';

/** The last part of a file's name, split at the separators of every system. */
function plainName(file: ReceivedFile): string {
  const name = file.name.split(/[/\\]/).at(-1) ?? '';
  const isVolume = name.endsWith(volumeSuffix);
  const plain = isVolume ? name.slice(0, -volumeSuffix.length) : name;
  if (!isSafeName(plain)) {
    throw new FieldError(file.field, `has a file whose name cannot be used: ${quoteName(file.name)}`);
  }
  // The name may begin with a dash, because the app's command line contains absolute paths, which cannot be mistaken for flags.
  return plain;
}

/** What placing files needs from the route. */
export interface PlacingContext {
  readonly limits: SubmissionLimits;
  readonly space: Reservation;
  /** Turns for extracting large archives, one after another. */
  readonly largeArchives: Turns;
  /**
   * Called with the total content size of all archives so far, in bytes, as soon as it is known. Throws if the owner may not keep
   * that much.
   */
  readonly onExtract: (bytes: number) => void;
}

/** The state while the files of one submission are placed. */
interface Placing extends PlacingContext {
  /** The disk space in bytes that archives may still take. */
  bytesLeft: number;
  entriesLeft: number;
  /** Size in bytes of the extracted content. */
  extracted: number;
}

/** Converts an ArchiveError to a ServiceError. Other errors stay as they are. */
function archiveFault(cause: unknown, file: ReceivedFile, advice: string): unknown {
  if (!(cause instanceof ArchiveError)) return cause;
  const code = cause.fault === 'tooLarge' || cause.fault === 'tooMany' ? 'uploadTooLarge' : 'badRequest';
  const detail = `Archive ${quoteName(file.name)} cannot be extracted: ${oneLine(cause.message)}`;
  return new ServiceError(code, cause.fault === 'tooLarge' ? detail + advice : detail, { cause });
}

/** An archive with more entries than this counts as large, because each entry takes 3 KB of memory. */
const manyEntries = 20_000;

/** Waits for a turn if the archive is large. */
async function turnFor(file: ReceivedFile, turns: Turns, signal: AbortSignal): Promise<Release> {
  await using archive = await open(file.path);
  const { entries } = await archiveEnd(archive);
  return entries > manyEntries ? turns.take(signal) : () => {};
}

/** Number of bytes that must be free before an archive is extracted. */
const initialBytes = 4 << 20;

/** Extracts an archive within the remaining limits, and only while the disk's reserve stays free. */
async function extract(file: ReceivedFile, destination: string, placing: Placing): Promise<void> {
  const { bytesLeft, entriesLeft, extracted, limits, largeArchives, onExtract } = placing;
  using space = placing.space.another();
  const stop = new AbortController();
  let plan = { entries: 0, bytes: 0, content: 0 };
  let seen = 0;
  let release: Release = () => {};
  try {
    release = await turnFor(file, largeArchives, stop.signal);
    await extractArchive(file.path, destination, {
      maxBytes: bytesLeft,
      maxEntries: entriesLeft,
      signal: stop.signal,
      onPlan: async (entries, bytes, content) => {
        plan = { entries, bytes, content };
        onExtract(extracted + content);
        await space.take(bytes, `what archive ${quoteName(file.name)} extracts to`, entries);
        // Any further bytes are counted only after they were written.
        await space.ensure(Math.min(bytes, initialBytes), 'this archive');
      },
      onProgress: (bytes) => {
        space.use(bytes - seen).catch((cause) => stop.abort(cause));
        seen = bytes;
        // The content of the archive is larger than stated.
        if (bytes <= plan.content) return;
        try {
          onExtract(extracted + bytes);
        } catch (cause) {
          stop.abort(cause);
        }
      },
    });
  } catch (cause) {
    throw stop.signal.aborted ? stop.signal.reason : archiveFault(cause, file, limits.advice);
  } finally {
    release();
  }
  placing.bytesLeft -= plan.bytes;
  placing.entriesLeft -= plan.entries;
  placing.extracted += plan.content;
  if (!file.isUpload) await rm(file.path);
}

/** Gives the job a copy of an upload, which shares the upload's disk blocks if the file system supports that. */
async function copyUpload(file: ReceivedFile, target: string, { space }: Placing): Promise<void> {
  const { size } = await stat(file.path);
  await space.use(size);
  await copyFile(file.path, target, constants.COPYFILE_FICLONE);
}

/**
 * Places the files of one group in a directory of its own, in the order of the form. Renames synchronously with pauses,
 * because the thread pool takes five times as long.
 */
async function placeGroup(
  group: readonly ReceivedFile[],
  directory: string,
  placing: Placing,
): Promise<string[]> {
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 });
  } catch (cause) {
    throw writeFault(cause);
  }
  const taken = new Set<string>();
  const counts = new Map<string, number>();
  const paths: string[] = [];
  const slice = new TimeSlice();
  for (const file of group) {
    // Files of one group with the same name get different ones: `ct.nii.gz`, `ct_1.nii.gz`.
    const name = freeName(plainName(file), counts, (each) => taken.has(each));
    taken.add(name);
    const target = path.join(directory, name);
    if (file.name.endsWith(volumeSuffix)) await extract(file, target, placing);
    else if (file.isUpload) await copyUpload(file, target, placing);
    else renameSync(file.path, target);
    await slice.pause();
    paths.push(target);
  }
  return paths;
}

/**
 * Moves the files of a submission to their places in the job's input directory: a directory for each group, with archives
 * extracted (docs/http.md, Submission).
 * @returns also the size in bytes of the content extracted from archives
 * @throws ServiceError 400, 413 or 507 for an archive, FieldError for a name
 */
export async function placeFiles(
  groups: ReadonlyMap<Field, readonly (readonly ReceivedFile[])[]>,
  input: string,
  context: PlacingContext,
): Promise<{ readonly files: JobFiles; readonly extracted: number }> {
  const placing: Placing = {
    ...context,
    bytesLeft: context.limits.maxExtractedSize,
    entriesLeft: maxEntries,
    extracted: 0,
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
  return { files: placed, extracted: placing.extracted };
}
