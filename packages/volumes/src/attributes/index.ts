/** The DICOM attributes that may leave a machine in de-identified files, and those that identify people. */

import { acquisitionAttributes } from './acquisition.js';
import { emissionAttributes } from './emission.js';
import { imageAttributes } from './image.js';
import { type Attribute, readTable } from './table.js';
import { terms } from './terms.js';

export { neutralCsa, privateAttribute } from './private.js';
export { identifyingTags, nameOfRemoved } from './removed-names.js';
export type { Attribute, Treatment } from './table.js';

const rows = readTable([...imageAttributes, ...acquisitionAttributes, ...emissionAttributes], terms);

// Later rows replace earlier ones, so that a group can keep what others empty.
const tableOf = (...only: readonly (string | undefined)[]): ReadonlyMap<string, Attribute> =>
  new Map(rows.filter((row) => only.includes(row.only)).map((row) => [row.tag, row]));

/** Every attribute that may leave, by its tag as eight hexadecimal digits. All others are removed. */
export const attributes = {
  image: tableOf(undefined),
  /** Including times. */
  timed: tableOf(undefined, 'timed'),
  /** Including times and the attributes needed to compute uptake. */
  emission: tableOf(undefined, 'timed', 'emission'),
};
