/** What jobs have used, by owner and app. */
export { UsageLedger } from './usage-ledger.js';
