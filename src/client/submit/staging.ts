import { statSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { ListedFile } from '../../archive/index.js';
import { groupsField, optionsField, quotePath, volumeSuffix } from '../../contract/index.js';
import { isDiskFull, isFileTooLarge, isSystemError } from '../../files/index.js';
import { UsageError, WriteError, withWriteErrors } from '../errors.js';
import type { FoundFiles, NamedDataSet, NamedUnit } from '../found-files.js';
import type { Outgoing, Workplace } from '../outgoing.js';
import type { Reporter } from '../reporter.js';
import type { Submission } from '../submission.js';
import type { SizedSource } from './limits.js';
import type { ServerTerms } from './preflight.js';
import { type FilePart, stateOf } from './segments.js';
import { TemporaryDirectory } from './temporary-directory.js';

/** A file that is sent, or a directory that is sent as one archive. */
interface SentFile {
  /** The path as the command found it. */
  readonly path: string;
  /** The name under which the app gets it; for a data set, the name of the archive. */
  readonly name: string;
}

/** The files that a submission sends, in the document printed by `--json`. */
export interface SentFiles {
  /** By field name; one list per group. */
  readonly sent: Readonly<Record<string, readonly (readonly SentFile[])[]>>;
  /** Files beside volumes, which are not volumes themselves and are not sent. */
  readonly skipped: readonly string[];
}

/** What is sent, with only paths and names. */
export function sentFilesOf({ volumes, dataSet, skipped }: FoundFiles): SentFiles {
  const shown = ({ path, name }: SentFile): SentFile => ({ path, name });
  const sent: Record<string, SentFile[][]> = {};
  for (const { field, groups } of volumes) sent[field.name] = groups.map((units) => units.map(shown));
  if (dataSet) sent[dataSet.field.name] = [[shown(dataSet.set)]];
  return { sent, skipped };
}

/** A file, or a directory as one archive, that is created just before it is sent. */
export interface StagedFile {
  readonly field: string;
  /** The group of that field, counted from 0. */
  readonly group: number;
  /** The name as the server sees it. */
  readonly filename: string;
  /** The path that the user gave, or that was found below it. */
  readonly path: string;
  /** Size in bytes, as far as it is known before the file is created. */
  readonly size: number;
  /** @throws UsageError for files that are too large for the server, cannot be packed, or cannot be de-identified */
  make(): Promise<FilePart>;
  /** Removes what was created for it. It can be created again. */
  discard(part: FilePart): Promise<void>;
}

/** One job before it is sent: an operation on an app, with its files. */
export interface Case {
  readonly submission: Submission;
  readonly found: FoundFiles;
  readonly terms: ServerTerms;
  /** How its files are de-identified; null if they are sent unchanged. */
  readonly outgoing: Outgoing | null;
}

/** A submission that is ready to be sent. Disposing of it removes the archives that were created for it. */
export interface Staged extends AsyncDisposable {
  readonly fields: Readonly<Record<string, string>>;
  /** For a form: the files, all of them already created. */
  readonly parts: readonly FilePart[];
  /** For a submission that refers to uploads: the files; null if a form is sent. */
  readonly uploads: readonly StagedFile[] | null;
}

interface Packing {
  readonly directory: TemporaryDirectory;
  readonly reporter: Reporter;
  readonly signal: AbortSignal | undefined;
  readonly outgoing: Outgoing | null;
  /** Whether equal files produce equal archives, so that the server can recognise them. In a form, archives are small instead. */
  readonly isByContent: boolean;
}

const variable = process.platform === 'win32' ? 'TEMP' : 'TMPDIR';
const noRoomHere = `run the command again, or set ${variable} to a directory with more room`;

/** Creates a file in the temporary directory. @throws WriteError for a full disk; UsageError for a source that cannot be read */
async function making<T>(
  source: string,
  target: string,
  packing: Packing,
  make: () => Promise<T>,
): Promise<T> {
  try {
    return await make();
  } catch (cause) {
    if (isDiskFull(cause) || isFileTooLarge(cause)) throw new WriteError(target, cause, noRoomHere);
    if (!isSystemError(cause) || packing.signal?.aborted) throw cause;
    throw new UsageError(`${quotePath(source)} cannot be packed: ${(cause as Error).message}`, { cause });
  }
}

const directoryOf = (packing: Packing): Promise<string> =>
  withWriteErrors(tmpdir(), noRoomHere, () => packing.directory.path());

async function pack(
  source: string,
  files: readonly ListedFile[],
  packing: Packing,
  name: string,
): Promise<{ path: string; size: number }> {
  const archive = path.join(await directoryOf(packing), `${name}.zip`);
  // Imported lazily to keep start-up fast: most commands send files.
  const { packListed } = await import('../../archive/index.js');
  const { notes } = await making(source, archive, packing, () =>
    packListed(files, archive, {
      withoutStats: packing.isByContent || packing.outgoing !== null,
      isStored: packing.isByContent,
      onProgress: (_entries, bytes) => packing.reporter.progress('Packing', bytes, 0),
      ...(packing.signal ? { signal: packing.signal } : {}),
    }),
  );
  for (const note of notes) packing.reporter.note(note);
  return { path: archive, size: (await stat(archive)).size };
}

type Source = NamedUnit | NamedDataSet;

/** The name as the server sees it. */
function nameOf(each: Source, outgoing: Outgoing | null): string {
  if (!('kind' in each)) return each.name;
  const isWhole = each.kind === 'file' && !each.path.endsWith(volumeSuffix);
  return (outgoing?.nameOf(each) ?? each.name) + (isWhole ? '' : volumeSuffix);
}

type Made = Pick<FilePart, 'path' | 'size' | 'pieces' | 'state'>;

/**
 * Creates a file to send, de-identified if requested.
 * @param name for files created in the temporary directory
 */
async function makeFile(each: Source, name: string, packing: Packing): Promise<Made> {
  const { path: source } = each;
  const { outgoing } = packing;
  if (!outgoing || !('kind' in each)) {
    if ('size' in each) return { path: source, size: each.size };
    // The order in which a directory is read is not part of its content.
    const sorted = [...each.files].sort((a, b) => (a.name < b.name ? -1 : 1));
    return pack(source, sorted, packing, name);
  }
  const directory = await directoryOf(packing);
  let made = 0;
  const work: Workplace = {
    newFile: async () => path.join(directory, `${name}-${made++}`),
    signal: packing.signal,
    onBytes: (bytes) => packing.reporter.progress('Packing', bytes, 0),
  };
  if (each.kind !== 'file') {
    const files = await making(source, directory, packing, () => outgoing.filesOf(each, work));
    return pack(source, files, packing, name);
  }
  const state = stateOf(statSync(source));
  const prepared = await making(source, directory, packing, () => outgoing.fileOf(each, work));
  const content = prepared ?? { path: source, size: each.size };
  return { ...content, ...(content.path === source ? { state } : {}) };
}

/** Bytes of files before they are packed. */
const unpackedSize = (files: readonly ListedFile[]): number =>
  files.reduce((sum, { size = 0 }) => sum + size, 0);

/** Bytes of a file or a directory, before anything is packed. */
const sizeOf = (each: Source): number => ('size' in each ? each.size : unpackedSize(each.files ?? []));

/** A file with its size. A directory that will be deflated has size 0 until it is packed. */
const sizedSource = (each: Source, isStored: boolean): SizedSource => ({
  source: each.path,
  size: 'size' in each || isStored ? sizeOf(each) : 0,
});

/** Minimum size of a file that makes uploads worth their additional requests, in bytes. */
const minUpload = 1 << 20;

/** Bytes that an entry takes in an archive beside its content, with a long name. */
const entrySize = 1024;

/** Whether directories fit into the server's limits without being deflated, as they would be in a form. */
function fitStored(all: readonly Source[], checkSizes: ServerTerms['checkSizes']): boolean {
  const stored = all.map((each): SizedSource => {
    const size = sizeOf(each) + entrySize * ('files' in each ? (each.files?.length ?? 0) : 0);
    // Data sets have a separate limit.
    return { source: each.path, size, ...('kind' in each ? {} : { extracted: sizeOf(each) }) };
  });
  try {
    checkSizes(stored);
    return true;
  } catch {
    return false;
  }
}

/** Maximum number of files in a submission that refers to uploads, because the size of its document is limited. */
const maxNamed = 10_000;

/** The field that declares that nothing in a submission identifies a person. */
const deidentifiedField = 'deidentified';

/**
 * Turns a submission into what is sent. Every file and file name that leaves this machine passes through here. Packs directories
 * into a private temporary directory: for a form immediately, so that the length of the request is known before it is sent.
 * @throws UsageError for files that are too large for the server, cannot be packed, or cannot be de-identified
 */
export async function stage(
  { submission, found, terms, outgoing }: Case,
  reporter: Reporter,
  signal: AbortSignal | undefined,
): Promise<Staged> {
  const { checkKinds, checkSizes, requiresDeidentified, takesUploads } = terms;
  const { volumes, dataSet } = found;
  const placed = [
    ...volumes.flatMap(({ field, groups }) =>
      groups.flatMap((units, group) => units.map((each) => ({ field: field.name, group, each }))),
    ),
    ...(dataSet ? [{ field: dataSet.field.name, group: 0, each: dataSet.set }] : []),
  ];
  const all = placed.map(({ each }): Source => each);
  const isByContent =
    takesUploads &&
    all.length <= maxNamed &&
    all.some((each) => sizeOf(each) > minUpload) &&
    fitStored(all, checkSizes);
  const sources = all.map((each): SizedSource => {
    const sized = sizedSource(each, isByContent && !outgoing);
    return each === dataSet?.set ? { ...sized, extracted: unpackedSize(dataSet.set.files ?? []) } : sized;
  });
  checkKinds(volumes);
  checkSizes(sources);
  for (const note of found.notes) reporter.note(note);
  const directory = new TemporaryDirectory();
  const packing = { directory, reporter, signal, outgoing, isByContent };
  const files = placed.map(({ field, group, each }, index): StagedFile => {
    const filename = nameOf(each, outgoing);
    return {
      ...{ field, group, filename, path: each.path, size: sizeOf(each) },
      make: async () => {
        const part = { field, filename, ...(await makeFile(each, `${field}-${index}`, packing)) };
        const source = sources[index];
        if (source && source.size !== part.size) {
          source.size = part.size;
          checkSizes(sources);
        }
        return part;
      },
      discard: (part) => directory.discard(part.path),
    };
  });
  const fields: Record<string, string> = { ...terms.fields, ...submission.fields };
  if (outgoing?.note.mode === 'full' && requiresDeidentified !== null) fields[deidentifiedField] = 'true';
  const removal = { [Symbol.asyncDispose]: () => directory.remove() };
  if (isByContent) return { fields, parts: [], uploads: files, ...removal };
  for (const { field, groups } of volumes)
    fields[groupsField(field)] = groups.map((each) => each.length).join(',');
  if (Object.keys(submission.options).length > 0) fields[optionsField] = JSON.stringify(submission.options);
  try {
    const parts: FilePart[] = [];
    for (const file of files) parts.push(await file.make());
    return { fields, parts, uploads: null, ...removal };
  } catch (error) {
    await directory.remove();
    throw error;
  }
}
