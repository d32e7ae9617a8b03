import path from 'node:path';
import { type FoundFiles, filesOfUnit } from '../found-files.js';
import type { Mode, Outgoing } from '../outgoing.js';
import type { Reporter } from '../reporter.js';
import { TemporaryDirectory } from './temporary-directory.js';

/** A file that would leave, or a directory that would leave as one archive. */
export interface PlannedFile {
  readonly field: string;
  /** The group of that field, counted from 0. */
  readonly group: number;
  readonly path: string;
  /** The name under which it would leave. */
  readonly name: string;
  readonly files: number;
  /** Before anything is packed. */
  readonly bytes: number;
}

/** What would leave of a submission. */
export interface LeavingPlan {
  /** Null where files leave as they are. */
  readonly deidentify: Mode | null;
  readonly files: readonly PlannedFile[];
  /** How many files keep each of these attributes, and how many lose each; empty where files leave as they are. */
  readonly kept: Readonly<Record<string, number>>;
  readonly removed: Readonly<Record<string, number>>;
}

/** Counts names. */
class Counts {
  readonly #counts = new Map<string, number>();

  add(names: readonly string[]): void {
    for (const name of new Set(names)) this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
  }

  get all(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#counts);
  }
}

/**
 * What would leave of a submission, found out as it is when it is sent, but for what is packed.
 * @throws UsageError for what cannot be de-identified
 */
export async function planLeaving(
  { volumes, dataSet }: FoundFiles,
  outgoing: Outgoing | null,
  reporter: Reporter,
  signal?: AbortSignal,
): Promise<LeavingPlan> {
  const [kept, removed] = [new Counts(), new Counts()];
  const tally = {
    add: (leaving: { readonly kept: readonly string[]; readonly removed: readonly string[] }) => {
      kept.add(leaving.kept);
      removed.add(leaving.removed);
    },
  };
  const directory = new TemporaryDirectory();
  let made = 0;
  const work = {
    newFile: async () => path.join(await directory.path(), String(made++)),
    signal,
    onBytes: (bytes: number) => reporter.progress('Reading', bytes, 0),
  };
  const files: PlannedFile[] = [];
  try {
    for (const { field, groups } of volumes) {
      for (const [group, units] of groups.entries()) {
        for (const unit of units) {
          const sizes = filesOfUnit(unit);
          const asItIs = sizes.reduce((sum, { size = 0 }) => sum + size, 0);
          const bytes = outgoing ? await outgoing.describe(unit, work, tally) : asItIs;
          const name = outgoing ? outgoing.nameOf(unit) : unit.name;
          files.push({ field: field.name, group, path: unit.path, name, files: sizes.length, bytes });
        }
      }
    }
  } finally {
    await directory.remove();
  }
  if (dataSet) {
    const { set } = dataSet;
    const listed = set.files ?? [set];
    const bytes = listed.reduce((sum, { size = 0 }) => sum + size, 0);
    const { path: at, name } = set;
    files.push({ field: dataSet.field.name, group: 0, path: at, name, files: listed.length, bytes });
  }
  return { deidentify: outgoing?.note.mode ?? null, files, kept: kept.all, removed: removed.all };
}
