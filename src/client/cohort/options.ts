import type { JobOptions } from '../case/index.js';
import type { LayoutName } from './bids-layout.js';
import type { CaseState, CohortWatcher } from './table.js';

/** How a cohort is run. Its reporter gets what concerns all cases. */
export interface CohortOptions extends JobOptions {
  readonly layout: LayoutName;
  /** How many jobs run at once at most. */
  readonly maxJobs: number;
  /** Whether all cases are computed again, also where files are that no record knows. */
  readonly isForced: boolean;
  /** Whether results of another version of the app stay. */
  readonly keepsVersion: boolean;
  /** Whether cases that lack a file of a group are left out. */
  readonly skipsIncomplete: boolean;
  /** Whether the first failure ends the command. */
  readonly failsFast: boolean;
  readonly watcher: CohortWatcher;
}

/** The outcome of a cohort. */
export interface CohortSummary {
  readonly output: string;
  /** Absolute path of the table. */
  readonly table: string;
  readonly cases: readonly CaseState[];
  /** Names of the rows whose input no longer exists. */
  readonly orphaned: readonly string[];
  /** Anything else worth knowing about the table, in sentences without a full stop. */
  readonly notes: readonly string[];
}
