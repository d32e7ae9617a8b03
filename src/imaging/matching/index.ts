/** Which scan a result belongs to, and what its labels mean. */
export { RecordedScans, recordOf, resultOf } from './find-scan.js';
export { type Named, namedBy, ScanMatcher, scanOf } from './match.js';
export { nameInGroup, organGroups, organKey, organsOf } from './organs.js';
export { type Draft, type Item, openerOf, pair } from './pair.js';
export { readTerminology, type Terminology } from './terminology.js';
