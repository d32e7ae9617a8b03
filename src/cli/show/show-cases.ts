import { existsSync } from 'node:fs';
import {
  type CaseDrawing,
  millilitresText,
  type Showing,
  type ShownCase,
  type ShownLabel,
} from '../../client/case/index.js';
import type { AppAnswer } from '../../client/connection/index.js';
import { ClientError, Interrupted, UsageError } from '../../client/errors.js';
import type { Reporter } from '../../client/reporter.js';
import { counted, quotePath } from '../../contract/index.js';
import { expandHome } from '../../files/index.js';
import { imaging } from '../../imaging/index.js';
import { type CommandIo, canvasOfTerminal, columnsOf, formatTable, wrapped } from '../terminal/index.js';

/** The document that `remote-app show --json` prints. */
export interface ShowDocument {
  readonly cases: readonly ShownCase[];
  /** File of the contact sheet; null if not requested. The same for `html`, the page. */
  readonly png: string | null;
  readonly html: string | null;
  /** Volumes that are not shown, each with the reason. */
  readonly problems: readonly string[];
}

export interface ShowOptions extends Pick<Showing, 'labels' | 'frame' | 'slices' | 'output' | 'signal'> {
  readonly io: CommandIo;
  /** The file of the contact sheet; `-` for stdout, null for none. */
  readonly png: string | null;
  /** The file of the page; null for none. */
  readonly html: string | null;
  /** Whether the page contains the volumes themselves. */
  readonly volumes: boolean;
  /** Whether existing files are replaced. */
  readonly force: boolean;
  /** Whether only a JSON document is printed. */
  readonly json: boolean;
  readonly reporter: Reporter;
}

/** The file that means stdout. */
const toStdout = '-';

/** How many cases are drawn on a terminal. */
const maxDrawn = 5;

/** Refuses output that cannot be written, before anything is read. */
function checkDestination({ png, html, force, json, io }: ShowOptions): void {
  if (html !== null) checkFree('html', html, force);
  if (png === null) return;
  if (png === toStdout) {
    if (json) throw new UsageError('--png - and --json both write to stdout; choose one');
    if (io.stdout.isTTY)
      throw new UsageError(
        'A PNG cannot be written to a terminal; name a file with --png, or redirect stdout',
      );
  } else checkFree('png', png, force);
}

function checkFree(flag: string, file: string, force: boolean): void {
  if (file === '' || file === toStdout) throw new UsageError(`--${flag} needs the name of a file`);
  if (!force && existsSync(file))
    throw new UsageError(
      `${quotePath(file)} exists already; name another file with --${flag}, or replace it with --force`,
    );
}

const labelHeading = ['LABEL', 'VALUE', 'VOXELS', 'VOLUME'];

const rowOf = ({ name, value, voxels, millilitres }: ShownLabel): string[] => [
  ...[name, String(value), String(voxels)],
  millilitresText(millilitres),
];

/** Prints the labels of all cases. */
async function printTable(cases: readonly ShownCase[], io: CommandIo): Promise<void> {
  const rows = cases.flatMap(({ name, layers }) => {
    const ofLayers = layers.flatMap((layer) =>
      layer.labels.map((label) => [layers.length < 2 ? name : `${name}: ${layer.name}`, ...rowOf(label)]),
    );
    return ofLayers.length === 0 ? [[name, '-', '-', '-', '-']] : ofLayers;
  });
  await io.writeOut(`${formatTable(['CASE', ...labelHeading], rows).join('\n')}\n`);
}

/** Draws a case on the terminal: its name, the planes, what there is to know, and its labels. */
async function draw({ shown, layers, swatches }: CaseDrawing, io: CommandIo): Promise<void> {
  const { hint } = io.colours(io.stdout);
  const nothing = { name: shown.name, picture: '', notes: shown.notes };
  for (const { name, picture, notes } of layers.length > 0 ? layers : [nothing]) {
    await io.writeOut(`\n${name}\n`);
    await io.writeOutAsIs(picture);
    const lines = notes.flatMap((note) => wrapped(note, columnsOf(io.stdout)));
    if (lines.length > 0) await io.writeOut(`${lines.map((each) => hint(each)).join('\n')}\n`);
  }
  if (shown.labels.length === 0) return;
  // The swatch is painted over an empty cell, so that there is no text to cut off.
  const rows = shown.labels.map((label, at) => [
    { text: '', paint: () => swatches[at] ?? '' },
    ...rowOf(label),
  ]);
  await io.writeOut(`${formatTable(['', ...labelHeading], rows).join('\n')}\n`);
}

/**
 * Shows scans and their results: as a contact sheet, on a terminal, or as a table.
 * @returns the document that `--json` prints
 * @throws UsageError for anything that cannot be shown
 */
export async function showCases(paths: readonly string[], options: ShowOptions): Promise<ShowDocument> {
  const { reporter, png, html, volumes, json, io, ...how } = options;
  if (paths.length === 0)
    throw new UsageError('No path given: name a result, or scans and segmentations, as files or directories');
  checkDestination(options);
  const isDrawn = png === null && html === null && !json && io.stdout.isTTY;
  const showing = {
    ...how,
    sheet: png === null ? null : { file: png === toStdout ? null : png },
    page: html === null ? null : { file: html, hasVolumes: volumes },
    terminal: isDrawn
      ? {
          canvas: canvasOfTerminal(io),
          maxCases: maxDrawn,
          draw: (drawing: CaseDrawing) => draw(drawing, io),
        }
      : null,
  };
  const shown = await imaging.show(
    paths.map((each) => expandHome(each)),
    showing,
    reporter,
  );
  const { cases, sheet, problems, more } = shown;
  if (sheet) await io.writeOutAsIs(sheet);
  for (const problem of problems) reporter.note(problem);
  if (more > 0)
    reporter.note(
      `${counted(more, 'more case')} not drawn: --png or --html draws all of them, --json counts their labels`,
    );
  for (const file of [html, png])
    if (file !== null && file !== toStdout)
      reporter.note(`${counted(cases.length, 'case')} drawn in ${quotePath(file)}`);
  if (!isDrawn && !json) {
    if (png !== toStdout) await printTable(cases, io);
    tellNotes(cases, shown.foundByRecord, reporter);
  }
  return { cases, png, html, problems };
}

/**
 * Prints the notes of the cases.
 * @param recorded notes about a scan that was found by its record; if there are several, one line with their number replaces
 *   them
 */
function tellNotes(cases: readonly ShownCase[], recorded: ReadonlySet<string>, reporter: Reporter): void {
  const isOne = recorded.size < 2;
  if (!isOne) reporter.note(`${recorded.size} scans found by their records`);
  for (const { name, notes } of cases)
    for (const note of notes) if (isOne || !recorded.has(note)) reporter.note(`${name}: ${note}`);
}

/** The app's names for label values. Without an answer from the server, labels are shown by value. */
export async function namesOfApp(
  ask: () => Promise<AppAnswer>,
  reporter: Reporter,
): Promise<Exclude<Showing['labels'], string>> {
  try {
    const answer = await ask();
    return answer.available ? (answer.terminology ?? {}) : {};
  } catch (error) {
    if (!(error instanceof ClientError) || error instanceof Interrupted) throw error;
    reporter.note(`Labels are shown without names: ${error.message}`);
    return {};
  }
}

/**
 * Draws the submitted scans and their result on the terminal. The result is already saved, so an error is only noted.
 * @param sent paths of files and directories
 * @param result the directory in which the result was saved
 * @param output the directory that results go to; earlier results may be next to it
 * @param ask asks the server about the app
 */
export async function showResult(
  sent: readonly string[],
  { result, output }: { readonly result: string; readonly output: string },
  ask: () => Promise<AppAnswer>,
  { io, reporter, signal }: Pick<ShowOptions, 'io' | 'reporter' | 'signal'>,
): Promise<void> {
  try {
    const labels = await namesOfApp(ask, reporter);
    await showCases([...sent, result], {
      ...{ png: null, html: null, volumes: false, force: false, slices: null, frame: 1, json: false },
      ...{ labels, io, reporter, signal, output },
    });
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    reporter.note(`The result cannot be drawn: ${error.message}`);
  }
}
