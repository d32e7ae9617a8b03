import path from 'node:path';
import { type FoundFiles, filesOfUnit, type NamedUnit } from '../found-files.js';
import type { Outgoing, Tally } from '../outgoing.js';
import type { Reporter } from '../reporter.js';
import { TemporaryDirectory } from './temporary-directory.js';

/** A file that would be sent, or a directory that would be sent as one archive. */
export interface PlannedFile {
  readonly field: string;
  /** The group of that field, counted from 0. */
  readonly group: number;
  readonly path: string;
  /** The name under which it would be sent. */
  readonly name: string;
  readonly files: number;
  /** Size in bytes before anything is packed. */
  readonly bytes: number;
}

const sizeOf = (files: readonly { readonly size?: number | undefined }[]): number =>
  files.reduce((sum, { size = 0 }) => sum + size, 0);

/**
 * What would be sent of a submission, prepared as for sending, but not packed.
 * @param tally counts the attributes that de-identification keeps and removes
 * @throws UsageError for files that cannot be de-identified
 */
export async function planSending(
  { volumes, dataSet }: FoundFiles,
  outgoing: Outgoing | null,
  tally: Tally,
  reporter: Reporter,
  signal?: AbortSignal,
): Promise<PlannedFile[]> {
  const directory = new TemporaryDirectory();
  let made = 0;
  const work = {
    newFile: async () => path.join(await directory.path(), String(made++)),
    signal,
    onBytes: (bytes: number) => reporter.progress('Reading', bytes, 0),
  };
  const planned: PlannedFile[] = [];
  const plan = async (field: string, group: number, unit: NamedUnit) => {
    const files = filesOfUnit(unit);
    const bytes = outgoing ? await outgoing.describe(unit, work, tally) : sizeOf(files);
    const name = outgoing ? outgoing.nameOf(unit) : unit.name;
    planned.push({ field, group, path: unit.path, name, files: files.length, bytes });
  };
  try {
    for (const { field, groups } of volumes)
      for (const [group, units] of groups.entries())
        for (const unit of units) await plan(field.name, group, unit);
  } finally {
    await directory.remove();
  }
  if (dataSet) {
    const { path: at, name, files } = dataSet.set;
    const listed = files ?? [dataSet.set];
    const about = { path: at, name, files: listed.length, bytes: sizeOf(listed) };
    planned.push({ field: dataSet.field.name, group: 0, ...about });
  }
  return planned;
}
