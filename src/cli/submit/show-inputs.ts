import path from 'node:path';
import { UsageError } from '../../client/errors.js';
import { type NamedUnit, type Volume, volumesOf } from '../../client/found-files.js';
import {
  counted,
  defaultOutput,
  exitCodes,
  fieldWithRole,
  formatBytes,
  oneLine,
  operationOf,
} from '../../contract/index.js';
import { expandHome } from '../../files/index.js';
import { imaging } from '../../imaging/index.js';
import { type CommandIo, formatTable, openReporter } from '../terminal/index.js';
import { type SelectionFlags, selectionOf } from './choose-files.js';
import { seriesChoice } from './choose-series.js';

/** A volume that would be sent, in the document of `--json`. */
export interface InputVolume {
  /** The name under which the app receives it. */
  readonly name: string;
  /** The file, or the directory that holds the volume. */
  readonly path: string;
  /** `DICOM`, `NIfTI`; null for a format that is not known. */
  readonly format: string | null;
  readonly files: number;
  readonly bytes: number;
  /** Details of DICOM images; null for other formats. */
  readonly series: {
    readonly number: number | null;
    readonly description: string;
    readonly modality: string;
    readonly images: number;
    /** Columns, rows, and images or frames. */
    readonly size: readonly number[];
    readonly plane: string | null;
    readonly remarks: readonly string[];
  } | null;
}

/** The document that `remote-app inputs --json` prints. */
export interface InputsDocument {
  readonly volumes: readonly InputVolume[];
  /** Files beside volumes, which are not sent. */
  readonly skipped: readonly string[];
  /** Copies of images that are sent. */
  readonly copies: readonly string[];
  /** Paths in Zarr stores that do not belong to them, and are not sent. */
  readonly strays: readonly string[];
  /** Links that lead out of what was named, and are followed since they lead to volumes. */
  readonly followed: readonly { readonly path: string; readonly target: string }[];
  /** DICOM objects without an image, which are not sent. */
  readonly objects: readonly { readonly path: string; readonly modality: string }[];
  /** What cannot be sent, for which nothing of the paths is. */
  readonly refused: readonly { readonly path: string; readonly reason: string }[];
}

const filesIn = (unit: NamedUnit): readonly { readonly size?: number }[] =>
  unit.kind === 'file' ? [{ size: unit.size }] : unit.files;

/** @param volume a file or a directory, or a header with the files that have its voxels */
function viewOf(volume: Volume): InputVolume[] {
  const [unit] = volume;
  if (!unit) return [];
  const { name, path, format } = unit;
  const files = volume.flatMap(filesIn);
  const bytes = files.reduce((sum, { size = 0 }) => sum + size, 0);
  const known = unit.kind === 'store' ? undefined : unit.series;
  if (!known) return [{ name, path, format, files: files.length, bytes, series: null }];
  const { number, description, modality, images, size, plane, remarks } = known;
  const series = { number, description, modality, images, size, plane, remarks };
  return [{ name, path, format, files: files.length, bytes, series }];
}

/** What a column shows for a volume without a value. */
const nothing = '-';

/** The table without its empty columns. */
function withoutEmptyColumns(rows: readonly (readonly string[])[]): string[][] {
  const kept = heading.map((_, column) => rows.some((row) => row[column] !== nothing));
  return [heading, ...rows].map((row) => row.filter((_, column) => kept[column]));
}

const heading = ['NAME', 'FORMAT', 'SERIES', 'DESCRIPTION', 'SIZE', 'PLANE', 'FILES', 'BYTES'];

function row({ name, format, files, bytes, series }: InputVolume): string[] {
  const kind = [format ?? nothing, series?.modality].filter(Boolean).join(' ');
  const size = series?.size.join(' x ') || nothing;
  const about = [
    series?.number?.toString() ?? nothing,
    series?.description || nothing,
    size,
    series?.plane ?? nothing,
  ];
  return [name, kind, ...about, String(files), formatBytes(bytes)];
}

/**
 * Shows what `infer` would send for these paths, and what cannot be sent.
 * @param isQuiet whether only notes are printed
 * @throws UsageError where the paths have nothing else than one thing that cannot be sent
 */
export async function showInputs(
  paths: readonly string[],
  flags: SelectionFlags & { readonly series?: readonly string[] | undefined; readonly 'all-files': boolean },
  io: CommandIo,
  isQuiet: boolean,
): Promise<InputsDocument> {
  if (paths.length === 0) throw new UsageError('No path given: name files, patterns or directories');
  const reporter = await openReporter(io, { stdoutIsTaken: isQuiet, all: false });
  const field = fieldWithRole(operationOf('infer'), 'paths');
  const submission = {
    files: [{ field, groups: [paths.map((each) => expandHome(each))] }],
    archive: null,
    allFiles: flags['all-files'],
    selection: selectionOf(flags),
  };
  try {
    const found = await imaging.find(submission, {
      chooseSeries: seriesChoice(flags.series, io, { mayAsk: false }),
      place: { directory: path.resolve(defaultOutput), mayReplace: false },
      listsRefused: true,
      isListed: true,
      reporter,
    });
    const volumes = found.volumes.flatMap(({ groups }) => groups.flatMap(volumesOf).flatMap(viewOf));
    const [bad, ...others] = found.refused;
    if (volumes.length === 0 && bad && others.length === 0) throw new UsageError(bad.sentence);
    const [head = [], ...rows] = withoutEmptyColumns(volumes.map(row));
    if (!isQuiet && volumes.length > 0) await io.writeOut(`${formatTable(head, rows).join('\n')}\n`);
    for (const note of found.notes) reporter.note(note);
    for (const { sentence } of found.refused) reporter.note(oneLine(`Cannot be sent: ${sentence}`));
    if (bad) {
      const count = found.refused.length;
      reporter.note(
        `Nothing is sent of these paths because of ${counted(count, 'file')} that cannot be sent`,
      );
      io.exitCode = exitCodes.usage;
    }
    const { skipped, copies, strays, followed, objects } = found;
    const refused = found.refused.map(({ path: at, sentence }) => ({ path: at, reason: sentence }));
    return { volumes, skipped, copies, strays, followed, objects, refused };
  } finally {
    reporter.close();
  }
}
