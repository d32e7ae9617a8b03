import { statSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { ListedFile } from '../../archive/index.js';
import { groupsField, optionsField, quotePath, volumeSuffix } from '../../contract/index.js';
import { isDiskFull, isFileTooLarge, isSystemError } from '../../files/index.js';
import { type Outgoing, refusedDataSet, type Workplace } from '../deidentify/index.js';
import { UsageError, WriteError, writing } from '../errors.js';
import type { FoundFiles, NamedDataSet, NamedUnit } from '../inputs/index.js';
import type { Reporter } from '../reporter.js';
import type { Submission } from '../submission.js';
import type { SizedSource } from './limits.js';
import { type FilePart, stateOf } from './multipart.js';
import type { ServerTerms } from './preflight.js';
import { tellSending } from './tell-sending.js';
import { TemporaryDirectory } from './temporary-directory.js';

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
  readonly outgoing: Outgoing | null;
}

const variable = process.platform === 'win32' ? 'TEMP' : 'TMPDIR';
const noRoomHere = `run the command again, or set ${variable} to a directory with more room`;

/** Makes a file in the temporary directory. @throws WriteError for a full disk; UsageError for a source that cannot be read */
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
  writing(tmpdir(), noRoomHere, () => packing.directory.path());

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
      withoutStats: packing.outgoing !== null,
      onProgress: (bytes) => packing.reporter.progress('Packing', bytes, 0),
      ...(packing.signal ? { signal: packing.signal } : {}),
    }),
  );
  for (const note of notes) packing.reporter.note(note);
  return { path: archive, size: (await stat(archive)).size };
}

const suffixOf = (unit: NamedUnit): string =>
  unit.kind !== 'file' || unit.path.endsWith(volumeSuffix) ? volumeSuffix : '';

async function unitPart(field: string, unit: NamedUnit, index: number, packing: Packing): Promise<FilePart> {
  if (packing.outgoing) return neutralPart(field, unit, index, packing, packing.outgoing);
  const filename = unit.name + suffixOf(unit);
  if (unit.kind === 'file') return { field, filename, path: unit.path, size: unit.size };
  return { field, filename, ...(await pack(unit.path, unit.files, packing, `${field}-${index}`)) };
}

/** A part without what identifies a person. */
async function neutralPart(
  field: string,
  unit: NamedUnit,
  index: number,
  packing: Packing,
  { deidentifier, names }: Outgoing,
): Promise<FilePart> {
  const filename = names.nameOf(unit) + suffixOf(unit);
  const directory = await directoryOf(packing);
  let made = 0;
  const work: Workplace = {
    newFile: async () => path.join(directory, `${field}-${index}-${made++}`),
    signal: packing.signal,
    onBytes: (bytes) => packing.reporter.progress('Packing', bytes, 0),
  };
  if (unit.kind !== 'file') {
    const files = await making(unit.path, directory, packing, () => deidentifier.filesTogether(unit, work));
    return { field, filename, ...(await pack(unit.path, files, packing, `${field}-${index}`)) };
  }
  const state = stateOf(statSync(unit.path));
  const prepared = await making(unit.path, directory, packing, () => deidentifier.prepare(unit, names, work));
  const content = prepared ?? { path: unit.path, size: unit.size };
  return { field, filename, ...content, ...(content.path === unit.path ? { state } : {}) };
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

/** The field that tells a server that nothing in a submission says who somebody is. */
const claim = 'deidentified';

/**
 * Makes of a submission what is sent: all that leaves this machine in files and their names comes through here. Packs directories into
 * a private temporary directory, so that the length of the request is known before it is sent.
 * @param outgoing how files leave that are de-identified; null if they leave as they are
 * @throws UsageError for files that are too large for the server, cannot be packed, or cannot be de-identified
 */
export async function stage(
  submission: Submission,
  found: FoundFiles,
  { checkKinds, checkSizes, fields: others, requiresDeidentified }: ServerTerms,
  outgoing: Outgoing | null,
  reporter: Reporter,
  signal: AbortSignal | undefined,
): Promise<Staged> {
  const { volumes, dataSet } = found;
  if (outgoing && dataSet) throw refusedDataSet();
  const units = volumes.flatMap(({ groups }) => groups.flat());
  const sources = [...units.map(sizedSource), ...(dataSet ? [sizedSet(dataSet.set)] : [])];
  checkKinds(volumes);
  checkSizes(sources);
  tellSending(found, reporter);
  const directory = new TemporaryDirectory();
  const packing = { directory, reporter, signal, outgoing };
  try {
    const fields: Record<string, string> = { ...others, ...submission.fields };
    if (outgoing?.deidentifier.mode === 'full' && requiresDeidentified !== null) fields[claim] = 'true';
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
