import { rmSync } from 'node:fs';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { ListedFile } from '../../archive/index.js';
import { groupsField, optionsField, quotePath, volumeSuffix } from '../../contract/index.js';
import { isDiskFull, isFileTooLarge, isSystemError } from '../../files/index.js';
import { UsageError, WriteError, writing } from '../errors.js';
import type { FoundFiles, NamedDataSet, NamedUnit } from '../inputs/index.js';
import type { Reporter } from '../reporter.js';
import type { Submission } from '../submission.js';
import type { SizedSource } from './limits.js';
import type { FilePart } from './multipart.js';
import type { ServerTerms } from './preflight.js';
import { tellSending } from './tell-sending.js';

/** Retried several times: Windows cannot remove a file that is open elsewhere, for example in a virus scanner. */
const removal = { recursive: true, force: true, maxRetries: 5 };

/** A directory that only this user can read: made when it is first used, and removed when the process ends. */
class TemporaryDirectory {
  #path: string | null = null;
  /** After a second Ctrl-C no `finally` block runs, but this handler does. */
  readonly #onExit = () => {
    if (this.#path !== null) rmSync(this.#path, removal);
  };

  async path(): Promise<string> {
    if (this.#path === null) {
      this.#path = await mkdtemp(path.join(tmpdir(), 'remote-app-'));
      process.once('exit', this.#onExit);
    }
    return this.#path;
  }

  async remove(): Promise<void> {
    if (this.#path === null) return;
    process.removeListener('exit', this.#onExit);
    await rm(this.#path, removal);
  }
}

/** A file that is sent, or a directory that is sent as one archive. */
interface SentFile {
  /** The path as the command found it. */
  readonly path: string;
  /** The name by which the app gets it; of a data set, the name of the archive. */
  readonly name: string;
}

/** What a submission sends, in the document that `--json` prints. */
export interface SentFiles {
  /** By field; of each, a list for every group. */
  readonly sent: Readonly<Record<string, readonly (readonly SentFile[])[]>>;
  /** Files beside volumes, which are not volumes themselves and are not sent. */
  readonly skipped: readonly string[];
}

/** What is sent, with paths and names alone. */
export function sentFilesOf({ volumes, dataSet, skipped }: FoundFiles): SentFiles {
  const shown = ({ path, name }: SentFile): SentFile => ({ path, name });
  const sent: Record<string, SentFile[][]> = {};
  for (const { field, groups } of volumes) sent[field.name] = groups.map((units) => units.map(shown));
  if (dataSet) sent[dataSet.field.name] = [[shown(dataSet.set)]];
  return { sent, skipped };
}

/** A submission whose content lies in files of known size. */
export interface Staged {
  readonly fields: Readonly<Record<string, string>>;
  readonly parts: readonly FilePart[];
  /** Removes the archives that were created for it. */
  remove(): Promise<void>;
}

interface Packing {
  readonly directory: TemporaryDirectory;
  readonly reporter: Reporter;
  readonly signal: AbortSignal | undefined;
}

const variable = process.platform === 'win32' ? 'TEMP' : 'TMPDIR';
const noRoomHere = `run the command again, or set ${variable} to a directory with more room`;

async function pack(
  source: string,
  files: readonly ListedFile[],
  packing: Packing,
  name: string,
): Promise<{ path: string; size: number }> {
  const directory = await writing(tmpdir(), noRoomHere, () => packing.directory.path());
  const archive = path.join(directory, `${name}.zip`);
  // Imported lazily to keep start-up fast: most commands send files.
  const { packListed } = await import('../../archive/index.js');
  try {
    const { notes } = await packListed(files, archive, {
      onProgress: (bytes) => packing.reporter.progress('Packing', bytes, 0),
      ...(packing.signal ? { signal: packing.signal } : {}),
    });
    for (const note of notes) packing.reporter.note(note);
  } catch (cause) {
    if (isDiskFull(cause) || isFileTooLarge(cause)) throw new WriteError(archive, cause, noRoomHere);
    if (!isSystemError(cause) || packing.signal?.aborted) throw cause;
    throw new UsageError(`${quotePath(source)} cannot be packed: ${(cause as Error).message}`, { cause });
  }
  return { path: archive, size: (await stat(archive)).size };
}

async function unitPart(field: string, unit: NamedUnit, index: number, packing: Packing): Promise<FilePart> {
  if (unit.kind === 'file') {
    const suffix = unit.path.endsWith(volumeSuffix) ? volumeSuffix : '';
    return { field, filename: unit.name + suffix, path: unit.path, size: unit.size };
  }
  const archive = await pack(unit.path, unit.files, packing, `${field}-${index}`);
  return { field, filename: unit.name + volumeSuffix, ...archive };
}

async function dataSetPart(field: string, set: NamedDataSet, packing: Packing): Promise<FilePart> {
  const { path, name, files } = set;
  if (files === null) return { field, filename: name, path, size: set.size };
  return { field, filename: name, ...(await pack(path, files, packing, field)) };
}

/** A file with its size; a directory counts only once it is packed. */
const sizedSource = (each: NamedUnit | NamedDataSet): SizedSource => ({
  source: each.path,
  size: 'size' in each ? each.size : 0,
});

/** The same for a data set, with the size of its files before they are packed. */
const sizedSet = (set: NamedDataSet): SizedSource => ({
  ...sizedSource(set),
  extracted: (set.files ?? []).reduce((sum, { size = 0 }) => sum + size, 0),
});

/**
 * Packs the directories of a submission into a private temporary directory, so that the length of the request is known before it
 * is sent.
 * @throws UsageError for files that are too large for the server, or cannot be packed
 */
export async function stage(
  submission: Submission,
  found: FoundFiles,
  { checkKinds, checkSizes, fields: others }: ServerTerms,
  reporter: Reporter,
  signal: AbortSignal | undefined,
): Promise<Staged> {
  const { volumes, dataSet } = found;
  const units = volumes.flatMap(({ groups }) => groups.flat());
  const sources = [...units.map(sizedSource), ...(dataSet ? [sizedSet(dataSet.set)] : [])];
  checkKinds(volumes);
  checkSizes(sources);
  tellSending(found, reporter);
  const directory = new TemporaryDirectory();
  const packing = { directory, reporter, signal };
  try {
    const fields: Record<string, string> = { ...others, ...submission.fields };
    const parts: FilePart[] = [];
    const add = (part: FilePart) => {
      const source = sources[parts.push(part) - 1];
      if (!source || source.size === part.size) return;
      source.size = part.size;
      checkSizes(sources);
    };
    for (const { field, groups } of volumes) {
      for (const unit of groups.flat()) add(await unitPart(field.name, unit, parts.length, packing));
      fields[groupsField(field)] = groups.map((each) => each.length).join(',');
    }
    if (dataSet) add(await dataSetPart(dataSet.field.name, dataSet.set, packing));
    if (Object.keys(submission.options).length > 0) fields[optionsField] = JSON.stringify(submission.options);
    return { fields, parts, remove: () => directory.remove() };
  } catch (error) {
    await directory.remove();
    throw error;
  }
}
