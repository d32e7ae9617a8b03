import { numberedCases } from '../../client/cohort/index.js';
import { ClientError, UsageError } from '../../client/errors.js';
import { type FoundFiles, filesOfUnit, seriesOf, type Volume, volumesOf } from '../../client/found-files.js';
import type { DeidentifyChoice, Mode, Outgoing } from '../../client/outgoing.js';
import type { Reporter } from '../../client/reporter.js';
import type { Submission } from '../../client/submission.js';
import { type PlannedFile, planSending, type SentFiles, sentFilesOf } from '../../client/submit/index.js';
import {
  counted,
  exitCodes,
  fieldWithRole,
  flagName,
  formatBytes,
  oneLine,
  operationOf,
} from '../../contract/index.js';
import { expandHome } from '../../files/index.js';
import { imaging } from '../../imaging/index.js';
import { outputDirectory } from '../jobs/index.js';
import { type CommandIo, formatTable, openReporter } from '../terminal/index.js';
import { type SelectionFlags, selectionOf } from './choose-files.js';
import { seriesChoice } from './choose-series.js';

/** Number of files by attribute. */
type Counts = Record<string, number>;

/** The common part of the documents of `--dry-run --json`. */
interface SharedDocument {
  /** Null if files would be sent unchanged. */
  readonly deidentify: Mode | null;
  /**
   * Attributes that are kept, and attributes that are removed, with the number of files; empty if files would be sent unchanged.
   */
  readonly kept: Readonly<Counts>;
  readonly removed: Readonly<Counts>;
  /** Field values that are sent exactly as typed. */
  readonly typed: Readonly<Record<string, unknown>>;
}

/** The document of `--dry-run --json`; with `--each`, it is grouped by case. */
export type DryRunDocument = SharedDocument &
  (
    | { readonly files: readonly PlannedFile[] }
    | {
        readonly cases: readonly {
          readonly case: string;
          readonly sent: SentFiles['sent'];
          readonly bytes: number;
        }[];
      }
  );

/** A volume that would be sent, in the document of `inputs --json`. */
interface InputVolume {
  /** The name under which the app receives it. */
  readonly name: string;
  /** The file, or the directory that holds the volume. */
  readonly path: string;
  /** `DICOM`, `NIfTI`; null for an unknown format. */
  readonly format: string | null;
  readonly files: number;
  readonly bytes: number;
  /** Details of DICOM images; null for other formats. */
  readonly series: {
    readonly number: number | null;
    readonly description: string;
    readonly modality: string;
    /** PatientID or PatientName if series of several patients are listed; otherwise, or if both are missing, null. */
    readonly patient: string | null;
    readonly images: number;
    /** Columns, rows, and images or frames. */
    readonly size: readonly number[];
    readonly plane: string | null;
    readonly remarks: readonly string[];
  } | null;
}

/** The document of `inputs --json`. */
export interface InputsDocument
  extends Pick<FoundFiles, 'skipped' | 'copies' | 'strays' | 'followed' | 'objects'> {
  readonly volumes: readonly InputVolume[];
  /** Files that cannot be sent. If there are any, nothing from these paths is sent. */
  readonly refused: readonly { readonly path: string; readonly reason: string }[];
}

/** Which files to look for, and how to show them. */
interface Looking {
  readonly series: readonly string[] | undefined;
  /** Files in this directory are not sent. */
  readonly output: string;
  readonly io: CommandIo;
  readonly json: boolean;
  readonly signal?: AbortSignal;
}

/** Finds files without asking a server. */
const look = (
  submission: Omit<Submission, 'app'>,
  { series, output, io, signal }: Looking,
  reporter: Reporter,
  more: { readonly isEach?: boolean; readonly skipsIncomplete?: boolean; readonly listsRefused?: boolean },
): Promise<FoundFiles> => {
  const results = { directory: output, mayReplace: more.isEach ?? false };
  const chooseSeries = seriesChoice(series, io, { mayAsk: false });
  const finding = { ...more, output: results, chooseSeries, isListed: true, reporter, signal };
  return imaging.find(submission, finding);
};

/**
 * @param volume a file or a directory, or a header with the files that have its voxels
 * @param hasPatients whether series of several patients are listed
 */
function viewOf(volume: Volume, hasPatients: boolean): InputVolume[] {
  const [unit] = volume;
  if (!unit) return [];
  const { name, path, format } = unit;
  const files = volume.flatMap(filesOfUnit);
  const bytes = files.reduce((sum, { size = 0 }) => sum + size, 0);
  const view = { name, path, format, files: files.length, bytes };
  const known = seriesOf(unit);
  if (!known) return [{ ...view, series: null }];
  const { number, description, modality, images, size, plane, remarks } = known;
  const patient = (hasPatients && known.patient) || null;
  return [{ ...view, series: { number, description, modality, patient, images, size, plane, remarks } }];
}

/** Shown in place of a missing value. */
const nothing = '-';

const headings = 'CASE NAME FORMAT PATIENT SERIES DESCRIPTION SIZE PLANE FILES BYTES PATH'.split(' ');

/** A row of the table of volumes. */
function rowOf(
  { name, format, files, bytes, series }: InputVolume,
  { caseName = nothing, path = nothing } = {},
): string[] {
  const about = [
    oneLine(series?.patient ?? nothing),
    series?.number?.toString() ?? nothing,
    series?.description || nothing,
    series?.size.join(' x ') || nothing,
    series?.plane ?? nothing,
  ];
  const kind = [format ?? nothing, series?.modality].filter(Boolean).join(' ');
  return [caseName, name, kind, ...about, String(files), formatBytes(bytes), oneLine(path)];
}

/** Prints a table without its empty columns. */
async function printTable(rows: readonly (readonly string[])[], { io, json }: Looking): Promise<void> {
  if (json || rows.length === 0) return;
  const kept = headings.map((_, column) => rows.some((row) => row[column] !== nothing));
  const [head = [], ...others] = [headings, ...rows].map((row) => row.filter((_, column) => kept[column]));
  await io.writeOut(`${formatTable(head, others).join('\n')}\n`);
}

/** Names by the number of files that have them: `in 2 files: dim, pixdim; in 1 file: descrip`. */
function namesIn(counts: Readonly<Counts>): string {
  const byCount = new Map<number, string[]>();
  for (const [name, count] of Object.entries(counts))
    byCount.set(count, [...(byCount.get(count) ?? []), name]);
  return [...byCount]
    .sort(([a], [b]) => b - a)
    .map(([count, names]) => `in ${counted(count, 'file')}: ${names.join(', ')}`)
    .join('; ');
}

const howSent = {
  full: 'De-identified: only what is kept, and the voxels, would leave',
  names: 'Only the names are neutral: everything inside the files would leave as it is',
};

/** Prints notes below the table: how the files would be sent. */
function noteSending(
  { deidentify, kept, removed, typed }: SharedDocument,
  { operation }: Pick<Submission, 'operation'>,
  reporter: Reporter,
): void {
  const [keeps, loses] = [namesIn(kept), namesIn(removed)];
  if (keeps !== '') reporter.note(oneLine(`Kept ${keeps}`));
  if (loses !== '') reporter.note(oneLine(`Removed ${loses}`));
  const asTheyAre =
    'Files and their names would leave as they are, unless the server takes only de-identified ones';
  reporter.note(deidentify === null ? asTheyAre : howSent[deidentify]);
  const flags = operation.fields.filter(({ name }) => Object.hasOwn(typed, name)).map(flagName);
  if (flags.length > 0) reporter.note(`Sent as typed: ${flags.map((flag) => `--${flag}`).join(', ')}`);
}

/** The table rows for a case that would be sent: one per volume, or one for a data set. */
function rowsOfPlan(
  { volumes }: FoundFiles,
  planned: readonly PlannedFile[],
  outgoing: Outgoing | null,
  caseName: string | undefined,
): string[][] {
  const bytesOf = new Map(planned.map(({ path, bytes }) => [path, bytes]));
  const found = volumes.flatMap(({ groups }) => groups.flatMap(volumesOf));
  if (found.length === 0)
    return planned.map((set) => rowOf({ ...set, format: null, series: null }, { path: set.path }));
  return found.flatMap((volume) =>
    viewOf(volume, false).map((view) => {
      const bytes = volume.reduce((sum, { path }) => sum + (bytesOf.get(path) ?? 0), 0);
      const names = volume.map((unit) => (outgoing ? outgoing.nameOf(unit) : unit.name));
      const path = volume.map((unit) => unit.path).join(', ');
      return rowOf({ ...view, name: names.join(', '), bytes }, { caseName, path });
    }),
  );
}

/**
 * Finds what a submission would send, and prints it as a table. Sends no request to the server.
 * @param how.isEach whether each case would be sent separately
 * @throws UsageError for what cannot be sent or paired
 */
export async function dryRun(
  submission: Omit<Submission, 'app'>,
  how: Looking & {
    readonly deidentify: DeidentifyChoice;
    readonly isEach: boolean;
    readonly skipsIncomplete: boolean;
  },
): Promise<DryRunDocument> {
  const { deidentify, isEach, skipsIncomplete, output, io, json, signal } = how;
  using reporter = await openReporter(io, { stdoutIsTaken: json, all: false });
  const found = await look(submission, how, reporter, { isEach, skipsIncomplete });
  const cases = isEach ? found.cases : [{ name: '', files: found, fault: null }];
  const preparing = { deidentify, requiresDeidentified: null, server: '' };
  const all = cases.map(({ files }) => files);
  const preparation = await imaging.prepare(all, preparing, reporter);
  const names = cases.map(({ name }) => name);
  const numbers =
    isEach && preparation.note
      ? numberedCases(output, names, { isWritten: false })
      : new Map<string, number>();
  const [kept, removed]: [Counts, Counts] = [{}, {}];
  const tally = {
    add: (sent: { readonly kept: readonly string[]; readonly removed: readonly string[] }) => {
      for (const name of new Set(sent.kept)) kept[name] = (kept[name] ?? 0) + 1;
      for (const name of new Set(sent.removed)) removed[name] = (removed[name] ?? 0) + 1;
    },
  };
  const plans: { name: string; sent: SentFiles['sent']; planned: PlannedFile[] }[] = [];
  const rows: string[][] = [];
  for (const { name, files, fault } of cases) {
    try {
      if (fault !== null) throw new UsageError(fault);
      const outgoing = preparation.outgoing(files, numbers.get(name));
      const planned = await planSending(files, outgoing, tally, reporter, signal);
      plans.push({ name, planned, sent: sentFilesOf(outgoing?.renamed ?? files).sent });
      rows.push(...rowsOfPlan(files, planned, outgoing, isEach ? name : undefined));
    } catch (error) {
      if (!isEach || !(error instanceof ClientError)) throw error;
      reporter.note(oneLine(`${name} fails: ${error.message}`));
    }
  }
  for (const note of found.notes) reporter.note(note);
  const typed = { ...submission.fields, ...submission.options };
  const shared = { deidentify: preparation.note?.mode ?? null, kept, removed, typed };
  await printTable(rows, how);
  if (!json) {
    noteSending(shared, submission, reporter);
    const what = isEach ? counted(plans.length, 'case') : counted(rows.length, 'volume');
    reporter.note(`${what}; nothing was sent`);
  }
  if (!isEach) return { ...shared, files: plans.flatMap(({ planned }) => planned) };
  const bytesOf = (planned: readonly PlannedFile[]) => planned.reduce((sum, { bytes }) => sum + bytes, 0);
  const planned = plans.map((each) => ({ case: each.name, sent: each.sent, bytes: bytesOf(each.planned) }));
  return { ...shared, cases: planned };
}

/**
 * Shows what `infer` would send of these paths, and what cannot be sent. Sends no request to the server.
 * @throws UsageError if the paths contain nothing but one item that cannot be sent
 */
export async function showInputs(
  paths: readonly string[],
  flags: SelectionFlags & { readonly series?: readonly string[] | undefined; readonly 'all-files': boolean },
  io: CommandIo,
  json: boolean,
): Promise<InputsDocument> {
  if (paths.length === 0) throw new UsageError('No path given: name files, patterns or directories');
  using reporter = await openReporter(io, { stdoutIsTaken: json, all: false });
  const operation = operationOf('infer');
  const groups = [paths.map((each) => expandHome(each))];
  const submission = {
    ...{ operation, fields: {}, options: {}, archive: null },
    files: [{ field: fieldWithRole(operation, 'paths'), groups }],
    allFiles: flags['all-files'],
    selection: selectionOf(flags),
  };
  const { directory: output } = outputDirectory({ force: false });
  const how = { series: flags.series, output, io, json };
  const found = await look(submission, how, reporter, { listsRefused: true });
  const all = found.volumes.flatMap(({ groups }) => groups.flatMap(volumesOf));
  const patients = new Set(all.flatMap(([unit]) => (unit && seriesOf(unit)?.patient) ?? []));
  const volumes = all.flatMap((volume) => viewOf(volume, patients.size > 1));
  const [bad, ...others] = found.refused;
  if (volumes.length === 0 && bad && others.length === 0) throw new UsageError(bad.sentence);
  await printTable(
    volumes.map((each) => rowOf(each)),
    how,
  );
  for (const note of found.notes) reporter.note(note);
  for (const { sentence } of found.refused) reporter.note(oneLine(`Cannot be sent: ${sentence}`));
  if (bad) {
    const count = counted(found.refused.length, 'file');
    reporter.note(`Nothing is sent of these paths because of ${count} that cannot be sent`);
    io.exitCode = exitCodes.usage;
  }
  const { skipped, copies, strays, followed, objects } = found;
  const refused = found.refused.map(({ path, sentence }) => ({ path, reason: sentence }));
  return { volumes, skipped, copies, strays, followed, objects, refused };
}
