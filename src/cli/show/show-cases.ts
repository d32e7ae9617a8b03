import { existsSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { VolumeError } from '@remote-app/volumes';
import type { AppAnswer } from '../../client/connection/index.js';
import { ClientError, Interrupted, UsageError, writing } from '../../client/errors.js';
import type { Reporter } from '../../client/reporter.js';
import { counted, quotePath } from '../../contract/index.js';
import { expandHome, replaceFile } from '../../files/index.js';
import { readTerminology, type Terminology } from '../../imaging/matching/index.js';
import {
  type Canvas,
  type CaseView,
  drawForTerminal,
  findCasesToShow,
  htmlPage,
  type PageCase,
  PageError,
  pageDefaults,
  type SheetCase,
  SheetTooLarge,
  type ShownCase,
  sheetOf,
  swatchOf,
  windowText,
} from '../../imaging/pictures/index.js';
import { type CommandIo, canvasOfTerminal, columnsOf, formatTable, wrapped } from '../terminal/index.js';
import { type CaseDocument, documentOf, labelHeading, printTable, rowOf } from './case-document.js';
import { type ViewOptions, viewsOf } from './case-views.js';

/** The document that `remote-app show --json` prints. */
export interface ShowDocument {
  readonly cases: readonly CaseDocument[];
  /** The contact sheet and the page; null if none was asked for. */
  readonly png: string | null;
  readonly html: string | null;
  /** Volumes that are not shown, each with the reason. */
  readonly problems: readonly string[];
}

export interface ShowOptions extends ViewOptions {
  readonly io: CommandIo;
  /** The file of the contact sheet; `-` for stdout, null for none. */
  readonly png: string | null;
  /** The file of the page; null for none. */
  readonly html: string | null;
  /** Whether the page carries the volumes themselves. */
  readonly volumes: boolean;
  /** Whether files that are there already are replaced. */
  readonly force: boolean;
  /** Slices of each plane on a sheet or a page; what is usual there if it is null. */
  readonly slices: number | null;
  /** Whether nothing but a document is printed. */
  readonly json: boolean;
  readonly reporter: Reporter;
  /** Where results go: earlier ones are not shown. By default all are. */
  readonly output?: string;
}

/** The file that means stdout. */
const toStdout = '-';

/** How much is read of a volume: for a sheet, for a terminal, and where labels are only counted. */
const sizes = {
  sheet: { slices: 5, maxPixels: 320 },
  terminal: { slices: 1, maxPixels: 512 },
  none: { slices: 1, maxPixels: 32 },
} as const;

/** Most cases that are drawn on a terminal. */
const mostDrawn = 5;

/** Refuses what cannot be written, before anything is read. */
function checkDestination({ png, html, force, json, io }: ShowOptions): void {
  if (html !== null) checkFree('html', html, force);
  if (png === null) return;
  if (png === toStdout) {
    if (json) throw new UsageError('--png - and --json both want stdout; choose one');
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

/** Writes a file whole or not at all. */
async function save(file: string, content: Uint8Array | AsyncIterable<string>): Promise<void> {
  const partial = `${file}.${process.pid}.partial`;
  await writing(file, 'show the cases again', async () => {
    try {
      await writeFile(partial, content);
      replaceFile(partial, file);
    } catch (cause) {
      await rm(partial, { force: true });
      throw cause;
    }
  });
}

/** The error for volumes that cannot be shown. Its message is that of the module, which ends like a sentence. */
const asUsage = (error: unknown): unknown =>
  error instanceof VolumeError || error instanceof SheetTooLarge || error instanceof PageError
    ? new UsageError(error.message.replace(/\.$/, ''), { cause: error })
    : error;

/** Draws a case on the terminal: its name, the planes, what there is to know, and its labels. */
async function draw(
  { name, notes }: ShownCase,
  views: readonly CaseView[],
  canvas: Canvas,
  io: CommandIo,
): Promise<void> {
  const { hint } = io.colours(io.stdout);
  const tell = async (about: readonly string[]) => {
    const lines = about.filter(Boolean).flatMap((each) => wrapped(each, columnsOf(io.stdout)));
    if (lines.length > 0) await io.writeOut(`${lines.map((each) => hint(each)).join('\n')}\n`);
  };
  if (views.length === 0) {
    await io.writeOut(`\n${name}\n`);
    await tell(notes);
  }
  for (const [at, view] of views.entries()) {
    await io.writeOut(`\n${view.name}\n`);
    await io.writeOutAsIs(drawForTerminal(view, canvas));
    await tell([windowText(view), ...(at === 0 ? notes : []), ...view.notes]);
  }
  const labels = views[0]?.labels ?? [];
  if (labels.length === 0) return;
  // A swatch has no text of its own to be cut.
  const rows = labels.map((label) => [{ text: '', paint: () => swatchOf(label, canvas) }, ...rowOf(label)]);
  await io.writeOut(`${formatTable(['', ...labelHeading], rows).join('\n')}\n`);
}

/**
 * Shows scans and what came back of them: as a contact sheet, on a terminal, or as a table.
 * @returns what `--json` prints
 * @throws UsageError for what cannot be shown
 */
export async function showCases(paths: readonly string[], options: ShowOptions): Promise<ShowDocument> {
  const { reporter, png, html, json, io } = options;
  if (paths.length === 0)
    throw new UsageError('No path given: name a result, or scans and segmentations, as files or directories');
  checkDestination(options);
  const isDrawn = png === null && html === null && !json && io.stdout.isTTY;
  const canvas = isDrawn ? canvasOfTerminal(io) : null;
  const found = await findCasesToShow(
    paths.map((each) => expandHome(each)),
    {
      output: options.output ?? null,
      signal: options.signal,
      onRead: (done, total) => {
        options.signal.throwIfAborted();
        reporter.progress('Reading', done, total);
      },
    },
  ).catch((error) => {
    throw asUsage(error);
  });
  const { cases } = found;
  const problems = [...found.problems];
  const wanted = canvas ? cases.slice(0, mostDrawn) : cases;
  const documents: CaseDocument[] = [];
  const sheet: SheetCase[] = [];
  const size = html !== null ? pageDefaults : sizes[canvas ? 'terminal' : png === null ? 'none' : 'sheet'];
  const view = { ...size, ...(options.slices === null || canvas ? {} : { slices: options.slices }) };
  async function* readCases(): AsyncGenerator<PageCase> {
    for (const [at, shown] of wanted.entries()) {
      options.signal.throwIfAborted();
      if (canvas) reporter.waiting(`Reading ${shown.name}`);
      else reporter.progress('Drawing', at, wanted.length);
      // Otherwise nothing is drawn while volumes are in memory already.
      await setImmediate();
      const before = problems.length;
      const views = await viewsOf(shown, options, view, problems);
      if (canvas) reporter.waiting(null);
      const isLost = views.length === 0 && problems.length > before;
      const notes = isLost ? [...shown.notes, ...problems.slice(before)] : shown.notes;
      // A case of a table has its row, whatever can be drawn of it.
      if (isLost && shown.status === null) continue;
      documents.push(documentOf({ ...shown, notes }, views));
      if (canvas)
        await draw(
          shown,
          views.map((each) => each.view),
          canvas,
          io,
        );
      if (png !== null) sheet.push({ name: shown.name, notes, views: views.map((each) => each.view) });
      const layers = views.map((each) => ({ ...each, volumes: { scan: each.scan, mask: each.mask } }));
      yield { name: shown.name, notes, layers, status: shown.status };
    }
    if (!canvas) reporter.progress('Drawing', wanted.length, wanted.length);
    if (documents.length === 0) throw new VolumeError(problems[0] ?? 'There is no volume to show.');
  }
  try {
    if (html === null) for await (const _ of readCases());
    else await save(html, htmlPage(readCases(), { ...titleOf(html), hasVolumes: options.volumes }));
    if (png === toStdout) await io.writeOutAsIs(sheetOf(sheet));
    else if (png !== null) await save(png, sheetOf(sheet));
  } catch (error) {
    throw asUsage(error);
  }
  for (const problem of problems) reporter.note(problem);
  if (wanted.length < cases.length) {
    const more = counted(cases.length - wanted.length, 'more case');
    reporter.note(`${more} not drawn: --png or --html draws all of them, --json counts their labels`);
  }
  for (const file of [html, png])
    if (file !== null && file !== toStdout)
      reporter.note(`${counted(documents.length, 'case')} drawn in ${quotePath(file)}`);
  if (!canvas && !json) {
    if (png !== toStdout) await printTable(documents, io);
    tellNotes(documents, new Set(cases.flatMap(({ recorded }) => recorded ?? [])), reporter);
  }
  return { cases: documents, png, html, problems };
}

/**
 * Tells the notes of the cases.
 * @param recorded those that name a scan which was found by a record: many of them are told in one line
 */
function tellNotes(cases: readonly CaseDocument[], recorded: ReadonlySet<string>, reporter: Reporter): void {
  const isOne = recorded.size < 2;
  if (!isOne) reporter.note(`${recorded.size} scans found by their records`);
  for (const { name, notes } of cases)
    for (const note of notes) if (isOne || !recorded.has(note)) reporter.note(`${name}: ${note}`);
}

/** The heading of a page, and the name of the file of its marks, by the name of its own file. */
function titleOf(html: string): { readonly title: string; readonly csvName: string } {
  const title = path.basename(html).replace(/\.html?$/i, '');
  return { title, csvName: `${title}-marks.csv` };
}

/**
 * What labels mean: from a file, otherwise from the app. Without the app's answer, labels are shown by their values.
 * @param ask asks a server about the app; null if no server and app were named
 * @throws UsageError for a file that names no labels
 */
export async function labelNames(
  file: string | undefined,
  ask: (() => Promise<AppAnswer>) | null,
  reporter: Reporter,
): Promise<Terminology> {
  if (file !== undefined) return readTerminology(file);
  if (ask === null) return {};
  try {
    const answer = await ask();
    return answer.available ? (answer.terminology ?? {}) : {};
  } catch (error) {
    if (!(error instanceof ClientError) || error instanceof Interrupted) throw error;
    reporter.note(`Labels are shown without their names: ${error.message}`);
    return {};
  }
}

/**
 * Draws what was sent and the result of it on the terminal. The result is saved by now, so that an error is only noted.
 * @param sent paths of files and directories
 * @param result the directory that it was saved in
 * @param output the directory that results go to, beside which earlier ones may lie
 * @param ask asks the server about the app
 */
export async function showResult(
  sent: readonly string[],
  { result, output }: { readonly result: string; readonly output: string },
  ask: () => Promise<AppAnswer>,
  { io, reporter, signal }: Pick<ShowOptions, 'io' | 'reporter' | 'signal'>,
): Promise<void> {
  try {
    const terminology = await labelNames(undefined, ask, reporter);
    await showCases([...sent, result], {
      ...{ png: null, html: null, volumes: false, force: false, slices: null, frame: 1, json: false },
      ...{ terminology, io, reporter, signal, output },
    });
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    reporter.note(`The result cannot be drawn: ${error.message}`);
  }
}
