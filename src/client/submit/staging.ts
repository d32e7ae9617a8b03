import { realpath, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { volumeSuffix } from '../../contract/archives.js';
import { groupsField, optionsField } from '../../contract/fields.js';
import { quoteName, quotePath } from '../../contract/quote.js';
import { isDiskFull } from '../../files/error-code.js';
import { MisnamedMember } from '../../pack/misnamed-member.js';
import { UsageError } from '../errors.js';
import type { Reporter } from '../reporter.js';
import { WriteError, writing } from '../write-error.js';
import { collectUnits, misnamed, type Unit } from './inputs.js';
import type { FilePart } from './multipart.js';
import type { Submission } from './submission.js';
import { TemporaryDirectory } from './temporary.js';
import { travels } from './volumes.js';

/** A submission whose content lies in files of known size. */
export interface Staged {
  readonly fields: Readonly<Record<string, string>>;
  readonly parts: readonly FilePart[];
  /** Removes the archives that were made for it. */
  remove(): Promise<void>;
}

interface Packing {
  readonly directory: TemporaryDirectory;
  readonly reporter: Reporter;
  readonly signal: AbortSignal | undefined;
}

const noRoomHere = 'run the command again, or set TMPDIR to a directory with more room';

async function pack(
  source: string,
  packing: Packing,
  name: string,
  include: (relativePath: string) => boolean,
): Promise<{ path: string; size: number }> {
  const archive = path.join(packing.directory.path, `${name}.zip`);
  // Imported lazily to keep start-up fast: most commands send files.
  const { packDirectory } = await import('../../pack/pack.js');
  try {
    // Strict: an app must not compute on an incomplete volume.
    const { notes } = await packDirectory(await realpath(source), archive, {
      include,
      strict: true,
      onProgress: (bytes) => packing.reporter.progress('Packing', bytes, 0),
      ...(packing.signal ? { signal: packing.signal } : {}),
    });
    for (const note of notes) packing.reporter.note(`${quoteName(source)}: ${note}`);
  } catch (cause) {
    if (cause instanceof MisnamedMember) throw misnamed(path.join(source, cause.member));
    throw isDiskFull(cause) ? new WriteError(archive, cause, noRoomHere) : cause;
  }
  return { path: archive, size: (await stat(archive)).size };
}

async function unitPart(field: string, unit: Unit, index: number, packing: Packing): Promise<FilePart> {
  const filename = path.basename(path.resolve(unit.path));
  if (unit.kind === 'file') return { field, filename, path: unit.path, size: unit.size };
  // Inside a store every file counts, hidden or not.
  const include = unit.kind === 'store' ? () => true : travels;
  const archive = await pack(unit.path, packing, `${field}-${index}`, include);
  return { field, filename: filename + volumeSuffix, ...archive };
}

async function archivePart(field: string, source: string, packing: Packing): Promise<FilePart> {
  const stats = await stat(source).catch(() => null);
  if (!stats) throw new UsageError(`${quotePath(source)} does not exist`);
  const name = path.basename(path.resolve(source));
  if (stats.isFile() && /\.zip$/i.test(name))
    return { field, filename: name, path: source, size: stats.size };
  if (!stats.isDirectory())
    throw new UsageError(`${quotePath(source)} is neither a directory nor a zip archive`);
  return { field, filename: `${name}.zip`, ...(await pack(source, packing, field, travels)) };
}

/**
 * Finds the files of a submission and packs its directories into a private temporary directory, so that the length of the
 * request is known before it is sent.
 * @param output where the result will go: it is not sent along with a directory that it lies in
 * @throws UsageError for paths without anything to send
 */
export async function stage(
  submission: Submission,
  reporter: Reporter,
  signal: AbortSignal | undefined,
  output: string | null = null,
): Promise<Staged> {
  const directory = await writing(tmpdir(), noRoomHere, () => TemporaryDirectory.create());
  const packing = { directory, reporter, signal };
  try {
    const fields: Record<string, string> = { ...submission.fields };
    const parts: FilePart[] = [];
    for (const { field, groups } of submission.files) {
      const sizes: number[] = [];
      for (const group of groups) {
        const units = await collectUnits(group, output);
        for (const unit of units) parts.push(await unitPart(field.name, unit, parts.length, packing));
        sizes.push(units.length);
      }
      fields[groupsField(field)] = sizes.join(',');
    }
    const { archive } = submission;
    if (archive) parts.push(await archivePart(archive.field.name, archive.path, packing));
    if (Object.keys(submission.options).length > 0) fields[optionsField] = JSON.stringify(submission.options);
    return { fields, parts, remove: () => directory.remove() };
  } catch (error) {
    await directory.remove();
    throw error;
  }
}
