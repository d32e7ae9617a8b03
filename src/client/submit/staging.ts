import { stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { ListedFile } from '../../archive/index.js';
import { volumeSuffix } from '../../contract/archives.js';
import { groupsField, optionsField } from '../../contract/fields.js';
import { quotePath } from '../../contract/quote.js';
import { isDiskFull, isFileTooLarge, isSystemError } from '../../files/error-code.js';
import { UsageError } from '../errors.js';
import type { Reporter } from '../reporter.js';
import { WriteError, writing } from '../write-error.js';
import type { SizedSource } from './checks/check-sizes.js';
import type { Clearance } from './checks/preflight.js';
import { findFiles, type NamedDataSet, type NamedUnit, type ResultPlace } from './inputs/find-files.js';
import type { FilePart } from './multipart.js';
import { type Sending, sendingOf, tellSending } from './sending.js';
import type { Submission } from './submission.js';
import { TemporaryDirectory } from './temporary.js';

/** A submission whose content lies in files of known size. */
export interface Staged {
  readonly fields: Readonly<Record<string, string>>;
  readonly parts: readonly FilePart[];
  readonly sending: Sending;
  /** Removes the archives that were made for it. */
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
    await packListed(files, archive, {
      onProgress: (bytes) => packing.reporter.progress('Packing', bytes, 0),
      ...(packing.signal ? { signal: packing.signal } : {}),
    });
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

/** The same of a data set, with what its files take before they are packed. */
const sizedSet = (set: NamedDataSet): SizedSource => ({
  ...sizedSource(set),
  extracted: (set.files ?? []).reduce((sum, { size = 0 }) => sum + size, 0),
});

/**
 * Finds the files of a submission and, if all can be sent, packs its directories into a private temporary directory, so that
 * the length of the request is known before it is sent.
 * @param ready called when all files are found and nothing is packed; the check of sizes that it resolves with is called
 * then, and again for each archive
 * @throws UsageError for paths without anything to send, and for files that cannot be sent
 */
export async function stage(
  submission: Submission,
  reporter: Reporter,
  signal: AbortSignal | undefined,
  place: ResultPlace | null = null,
  ready: () => Promise<Clearance> = async () => ({ checkSizes: () => {}, fields: {} }),
): Promise<Staged> {
  const found = await findFiles(submission, place);
  const { volumes, dataSet } = found;
  const { checkSizes, fields: others } = await ready();
  const units = volumes.flatMap(({ groups }) => groups.flat());
  const sources = [...units.map(sizedSource), ...(dataSet ? [sizedSet(dataSet.set)] : [])];
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
    return { fields, parts, sending: sendingOf(found), remove: () => directory.remove() };
  } catch (error) {
    await directory.remove();
    throw error;
  }
}
