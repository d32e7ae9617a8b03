import { lstatSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { isSafeName } from '../../archives/entry-path.js';
import { ArchiveError } from '../../archives/errors.js';
import { FieldError, ServiceError } from '../../contract/errors.js';
import type { Field } from '../../contract/fields.js';
import type { JobFiles } from '../jobs/record.js';
import { extractionLimits, type UploadLimits } from './quota.js';
import type { ReceivedFile } from './receive.js';

/** Ends the name of a file that is one directory volume (interface.md, Submission). */
const volumeSuffix = '.konfaidir.zip';

/** The last part of a file's name, whichever system's separators it has. */
function plainName(file: ReceivedFile): string {
  const name = file.name.split(/[/\\]/).at(-1) ?? '';
  const isVolume = name.endsWith(volumeSuffix);
  const plain = isVolume ? name.slice(0, -volumeSuffix.length) : name;
  if (!isSafeName(plain)) {
    throw new FieldError(file.field, `has a file whose name cannot be used: '${file.name.slice(0, 300)}'`);
  }
  // A path on the app's command line is absolute, so a leading dash is no flag there; apps pass names on, though.
  return plain;
}

/**
 * Keeps apart files of one group that share a name: `ct.nii.gz`, `ct_1.nii.gz`.
 * @param isTaken asks the disk, too: on some file systems `CT.nii` and `ct.nii` are one name
 */
function uniqueName(name: string, isTaken: (name: string) => boolean): string {
  const dot = name.indexOf('.', 1);
  const [stem, suffix] = dot < 0 ? [name, ''] : [name.slice(0, dot), name.slice(dot)];
  let unique = name;
  for (let count = 1; isTaken(unique); count += 1) unique = `${stem}_${count}${suffix}`;
  return unique;
}

/** What the archives of one upload may still extract to, all together. */
type Room = ReturnType<typeof extractionLimits>;

async function extract(file: ReceivedFile, destination: string, room: Room): Promise<void> {
  try {
    // Loaded with the first archive: the server answers the sooner.
    const { extractArchive } = await import('../../archives/extract.js');
    const { bytes, files } = await extractArchive(file.path, destination, room);
    room.maxBytes -= bytes;
    room.maxEntries -= files;
  } catch (cause) {
    if (!(cause instanceof ArchiveError)) throw cause;
    const code = cause.fault === 'tooLarge' || cause.fault === 'tooMany' ? 'uploadTooLarge' : 'badRequest';
    throw new ServiceError(code, `Archive '${file.name}' cannot be extracted: ${cause.message}`, { cause });
  }
  await rm(file.path);
}

/** Lays out one group in a directory of its own, in upload order. */
async function placeGroup(group: readonly ReceivedFile[], directory: string, room: Room): Promise<string[]> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const isTaken = (name: string) =>
    isSafeName(name) && lstatSync(path.join(directory, name), { throwIfNoEntry: false }) !== undefined;
  const paths: string[] = [];
  for (const file of group) {
    const name = uniqueName(plainName(file), isTaken);
    if (!isSafeName(name))
      throw new FieldError(file.field, `has two files of one name that is too long: '${name}'`);
    const target = path.join(directory, name);
    if (file.name.endsWith(volumeSuffix)) await extract(file, target, room);
    else await rename(file.path, target);
    paths.push(target);
  }
  return paths;
}

/**
 * Gives the files of a form their places under the job's input directory: a folder for each group, an archive
 * extracted (spec.md, Job submission).
 * @throws ServiceError 400 or 413 for an archive, FieldError for a name
 */
export async function placeFiles(
  groups: ReadonlyMap<Field, readonly (readonly ReceivedFile[])[]>,
  input: string,
  limits: UploadLimits,
): Promise<JobFiles> {
  const room = extractionLimits(limits);
  const placed: Record<string, string[][]> = {};
  for (const [field, fieldGroups] of groups) {
    const base = path.join(input, field.name);
    const paths: string[][] = [];
    for (const [index, group] of fieldGroups.entries()) {
      if (field.kind === 'archive' && group[0]) {
        await extract(group[0], base, room);
        paths.push([base]);
      } else {
        paths.push(await placeGroup(group, path.join(base, `g${index}`), room));
      }
    }
    if (paths.length > 0) placed[field.name] = paths;
  }
  return placed;
}
