import { rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { VolumeError } from '@remote-app/volumes';
import type { Showing, Shown, ShownCase } from '../../client/case/index.js';
import { UsageError, withWriteErrors } from '../../client/errors.js';
import type { Reporter } from '../../client/reporter.js';
import { replaceFile } from '../../files/index.js';
import { readTerminology, type Terminology } from '../matching/index.js';
import type { CaseToShow } from './case-to-show.js';
import { findCasesToShow } from './cases.js';
import { htmlPage, pageDefaults } from './html.js';
import type { CaseView, DrawnCase, LayerView } from './picture.js';
import { sheetOf, windowText } from './sheet.js';
import { drawForTerminal, swatchOf } from './terminal.js';
import { type ViewOptions, viewCase } from './view-case.js';

/** How much of a volume is read: for a sheet, for a terminal, and if labels are only counted. */
const sizes = {
  sheet: { slices: 5, maxPixels: 320 },
  terminal: { slices: 1, maxPixels: 512 },
  none: { slices: 1, maxPixels: 32 },
} as const;

/** How much of a volume is read for the requested pictures. */
function sizeFor({ terminal, page, sheet, slices }: Showing) {
  if (terminal) return sizes.terminal;
  const size = page ? pageDefaults : sizes[sheet ? 'sheet' : 'none'];
  return slices === null ? size : { ...size, slices };
}

/** Writes a file whole or not at all. */
async function save(file: string, content: Uint8Array | AsyncIterable<string>): Promise<void> {
  const partial = `${file}.${process.pid}.partial`;
  await withWriteErrors(file, 'show the cases again', async () => {
    try {
      await writeFile(partial, content);
      replaceFile(partial, file);
    } catch (cause) {
      await rm(partial, { force: true });
      throw cause;
    }
  });
}

/** The heading of a page and the name of the file of its marks, derived from the name of the page. */
function titleOf(html: string): { readonly title: string; readonly csvName: string } {
  const title = path.basename(html).replace(/\.html?$/i, '');
  return { title, csvName: `${title}-marks.csv` };
}

/** The layers of a case: each segmentation on its scan, and each map with the first segmentation. */
function layersOf({ scan, masks, maps }: CaseToShow) {
  const [first] = masks;
  const onScan = masks.map((mask) => ({ ...mask, scan, mask: mask.file, unit: mask.units.inputs }));
  const unit = maps[0]?.units.inputs ?? null;
  const alone =
    masks.length === 0 && scan
      ? [{ name: path.basename(scan.path), terminology: {}, scan, mask: null, unit }]
      : [];
  const ofMaps = maps.map(({ name, file, units }) => ({
    ...{ name, scan: file, mask: first?.file ?? null, unit: units.outputs },
    terminology: first?.terminology ?? {},
  }));
  return [...onScan, ...alone, ...ofMaps];
}

/**
 * Draws the pictures of a case. A volume that cannot be drawn is reported as a problem, without affecting the others.
 * @param names of labels; they take precedence over those in the records
 */
async function viewsOf(
  shown: CaseToShow,
  names: Terminology,
  options: ViewOptions,
  problems: string[],
): Promise<LayerView[]> {
  const layers = layersOf(shown);
  const views: LayerView[] = [];
  for (const { name, scan, mask, unit, terminology } of layers) {
    const title = layers.length === 1 ? shown.name : `${shown.name}: ${name}`;
    const volumes = { name: title, scan, mask, unit, terminology: { ...terminology, ...names } };
    try {
      views.push({ name, scan, mask, view: await viewCase(volumes, options) });
    } catch (error) {
      if (!(error instanceof VolumeError)) throw error;
      problems.push(error.message);
    }
  }
  return views;
}

const labelsOf = (view: CaseView | undefined) =>
  (view?.labels ?? []).map(({ value, name, voxels, millilitres }) => ({ value, name, voxels, millilitres }));

/** A case as it is reported to other programs. */
function shownOf(
  { name, scan, masks, maps, notes, status }: CaseToShow,
  views: readonly LayerView[],
): ShownCase {
  const layers = masks.map((mask) => ({
    name: mask.name,
    path: mask.file.path,
    labels: labelsOf(views.find((each) => each.mask === mask.file && each.scan === scan)?.view),
  }));
  const [first] = layers;
  return {
    name,
    status,
    scan: scan?.path ?? null,
    mask: first?.path ?? null,
    maps: maps.map(({ file }) => file.path),
    labels: first?.labels ?? [],
    layers,
    notes: [...notes, ...(views[0]?.view.notes ?? [])],
  };
}

/** Implements `show` of the client's interface. */
export async function show(paths: readonly string[], showing: Showing, reporter: Reporter): Promise<Shown> {
  const { labels, frame, output = null, sheet, page, terminal, signal } = showing;
  const names = typeof labels === 'string' ? readTerminology(labels) : labels;
  const options = { ...sizeFor(showing), frame: frame - 1, signal };
  const problems: string[] = [];
  const cases: ShownCase[] = [];
  const drawn: DrawnCase[] = [];
  const foundByRecord = new Set<string>();
  let more = 0;

  async function* drawCases(): AsyncGenerator<DrawnCase> {
    const onRead = (done: number, total: number) => {
      signal.throwIfAborted();
      reporter.progress('Reading', done, total);
    };
    const found = await findCasesToShow(paths, { output, signal, onRead });
    problems.push(...found.problems);
    for (const { recorded } of found.cases) if (recorded !== null) foundByRecord.add(recorded);
    const wanted = found.cases.slice(0, terminal?.maxCases);
    more = found.cases.length - wanted.length;
    for (const [at, each] of wanted.entries()) {
      signal.throwIfAborted();
      if (terminal) reporter.waiting(`Reading ${each.name}`);
      else reporter.progress('Drawing', at, wanted.length);
      // Gives the terminal a chance to update, even while volumes are read from memory.
      await setImmediate();
      const before = problems.length;
      const layers = await viewsOf(each, names, options, problems);
      if (terminal) reporter.waiting(null);
      const isLost = layers.length === 0 && problems.length > before;
      // A table case is shown even if nothing of it can be drawn.
      if (isLost && each.status === null) continue;
      const notes = isLost ? [...each.notes, ...problems.slice(before)] : each.notes;
      const shown = shownOf({ ...each, notes }, layers);
      cases.push(shown);
      if (terminal) {
        const { canvas } = terminal;
        const drawings = layers.map(({ view }, layer) => ({
          name: view.name,
          picture: drawForTerminal(view, canvas),
          notes: [windowText(view), ...(layer === 0 ? each.notes : []), ...view.notes].filter(Boolean),
        }));
        const swatches = (layers[0]?.view.labels ?? []).map((label) => swatchOf(label, canvas));
        await terminal.draw({ shown, layers: drawings, swatches });
      }
      const whole = { name: each.name, status: each.status, notes, layers };
      if (sheet) drawn.push(whole);
      yield whole;
    }
    if (!terminal) reporter.progress('Drawing', wanted.length, wanted.length);
    if (cases.length === 0) throw new VolumeError(problems[0] ?? 'There is no volume to show.');
  }

  try {
    if (page)
      await save(page.file, htmlPage(drawCases(), { ...titleOf(page.file), hasVolumes: page.hasVolumes }));
    else for await (const _ of drawCases());
    const png = sheet && sheetOf(drawn);
    if (png && sheet.file !== null) await save(sheet.file, png);
    return { cases, sheet: sheet?.file === null ? png : null, problems, foundByRecord, more };
  } catch (error) {
    // Messages of VolumeErrors end with a full stop.
    if (!(error instanceof VolumeError)) throw error;
    throw new UsageError(error.message.replace(/\.$/, ''), { cause: error });
  }
}
