/** Which attributes of DICOM may leave a machine when a person's identity must not, and which say who that is. */

import { acquisitionAttributes } from './acquisition.js';
import { emissionAttributes } from './emission.js';
import { imageAttributes } from './image.js';
import { type Attribute, readTable } from './table.js';
import { terms } from './terms.js';

export { identifyingTags, nameOfRemoved } from './removed-names.js';
export type { Attribute, Treatment } from './table.js';

const rows = readTable([...imageAttributes, ...acquisitionAttributes, ...emissionAttributes], terms);

/** The attributes of the table, by their tags as eight hexadecimal digits. */
export interface AttributeTable {
  readonly image: ReadonlyMap<string, Attribute>;
  /** The same with times. */
  readonly timed: ReadonlyMap<string, Attribute>;
  /** The same with times, and with what uptake is computed from. */
  readonly emission: ReadonlyMap<string, Attribute>;
}

// Later rows replace earlier ones: what is emptied elsewhere is kept where it is needed.
const tableOf = (...only: readonly (string | undefined)[]): ReadonlyMap<string, Attribute> =>
  new Map(rows.filter((row) => only.includes(row.only)).map((row) => [row.tag, row]));

/** Every attribute that may leave. What is not on it does not. */
export const attributes: AttributeTable = {
  image: tableOf(undefined),
  timed: tableOf(undefined, 'timed'),
  emission: tableOf(undefined, 'timed', 'emission'),
};
