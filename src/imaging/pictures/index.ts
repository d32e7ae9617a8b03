/** Pictures of scans and of what came back: for the terminal, as PNG and as an HTML page. */
export { findCasesToShow } from './cases.js';
export {
  htmlPage,
  type PageCase,
  PageError,
  type PageLayer,
  type PageOptions,
  pageDefaults,
} from './html.js';
export { readColour } from './labels.js';
export { type Looks, looksOf } from './looks.js';
export type {
  CaseView,
  Colour,
  Marks,
  Picture,
  PlaneName,
  PlaneView,
  ShownLabel,
  SliceView,
} from './picture.js';
export { millilitresText, type SheetCase, SheetTooLarge, sheetOf, windowText } from './sheet.js';
export type { Layer, ShownCase } from './shown-case.js';
export { type Canvas, drawForTerminal, swatchOf } from './terminal.js';
export { type CaseVolumes, type ViewOptions, viewCase } from './view-case.js';
