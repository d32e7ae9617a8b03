/** The DICOM attributes that may leave a machine when a person's identity must not, and those that identify people. */

import { acquisitionAttributes } from './acquisition.js';
import { emissionAttributes } from './emission.js';
import { imageAttributes } from './image.js';
import { type Attribute, readTable } from './table.js';
import { terms } from './terms.js';

export { neutralCsa, privateAttribute } from './private.js';
export { identifyingTags, nameOfRemoved } from './removed-names.js';
export type { Attribute, Treatment } from './table.js';

const rows = readTable([...imageAttributes, ...acquisitionAttributes, ...emissionAttributes], terms);

/** The attributes of the table, by their tags as eight hexadecimal digits. */
export interface AttributeTable {
  readonly image: ReadonlyMap<string, Attribute>;
  /** With times as well. */
  readonly timed: ReadonlyMap<string, Attribute>;
  /** With times and what is needed to compute uptake. */
  readonly emission: ReadonlyMap<string, Attribute>;
}

// Later rows replace earlier ones, so that a group can keep what others empty.
const tableOf = (...only: readonly (string | undefined)[]): ReadonlyMap<string, Attribute> =>
  new Map(rows.filter((row) => only.includes(row.only)).map((row) => [row.tag, row]));

/** Every attribute that may leave. All others are removed. */
export const attributes: AttributeTable = {
  image: tableOf(undefined),
  timed: tableOf(undefined, 'timed'),
  emission: tableOf(undefined, 'timed', 'emission'),
};
