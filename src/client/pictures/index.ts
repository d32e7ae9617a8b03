/** Pictures of scans and of what came back: for the terminal, as PNG and as an HTML page. */
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
