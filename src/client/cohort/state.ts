import type { FinishOptions } from '../case/index.js';
import type { DeidentifyChoice } from '../outgoing.js';
import type { Reporter } from '../reporter.js';
import type { LayoutName } from './bids-layout.js';

/**
 * What is being done with a case. `waiting` also if the command ended before its turn; `orphaned` for a result of an earlier command
 * whose input no longer exists.
 */
export type CaseStatus =
  | 'waiting'
  | 'reading'
  | 'sending'
  | 'running'
  | 'fetching'
  | 'done'
  | 'failed'
  | 'orphaned';

/** Whether nothing more is done with a case. */
export const isOver = ({ status }: Pick<CaseState, 'status'>): boolean =>
  status === 'done' || status === 'failed' || status === 'orphaned';

/** A case, as far as the command has come with it. */
export interface CaseState {
  readonly name: string;
  /** The labels of `sub-` and `ses-` in the paths of its files, as in BIDS; null without one. */
  readonly subject: string | null;
  readonly session: string | null;
  readonly status: CaseStatus;
  /** Why it failed, or what should be known of its result. */
  readonly reason: string | null;
  /** The version of the app that made its result; null if there is none, or the server does not say. */
  readonly version: string | null;
  /** How long its job ran. */
  readonly seconds: number | null;
  readonly jobId: string | null;
  /** Whether this command, and not an earlier one, brought its result. */
  readonly isNew: boolean;
  /** Files of the result, or beside it, that a person has changed. */
  readonly edited: readonly string[];
  readonly numbers: Readonly<Record<string, number>>;
}

/** A case of which nothing is known but its name. */
export const newState = {
  ...{ status: 'waiting', reason: null, version: null, seconds: null, jobId: null, isNew: false },
  ...{ edited: [], numbers: {} },
} as const satisfies Partial<CaseState>;

/** Shows a person how it goes. */
export interface CohortWatcher {
  /** For what concerns one case: its transfers, and the log of its job. */
  reporterOf(name: string): Reporter;
  /** Called with all cases before the first one is sent. */
  began(states: readonly CaseState[]): void;
  /** Called whenever something about a case has changed. */
  changed(state: CaseState): void;
}

export interface CohortOptions
  extends Pick<
    FinishOptions,
    'chooseSeries' | 'imaging' | 'clientVersion' | 'conversion' | 'killTimeout' | 'wait'
  > {
  /** The directory of the results. */
  readonly output: string;
  /** Whether and how files are de-identified. */
  readonly deidentify: DeidentifyChoice;
  readonly layout: LayoutName;
  /** Most jobs at once. */
  readonly atMost: number;
  /** Whether all cases are computed again, also where files are that no record knows. */
  readonly isForced: boolean;
  /** Whether results of another version of the app stay. */
  readonly keepsVersion: boolean;
  /** Whether cases that lack a file of a group are left out. */
  readonly skipsIncomplete: boolean;
  /** Whether the first failure ends the command. */
  readonly failsFast: boolean;
  readonly watcher: CohortWatcher;
  /** For what concerns all cases. */
  readonly reporter: Reporter;
}

/** What a cohort has come to. */
export interface CohortSummary {
  readonly output: string;
  /** Absolute path of the table. */
  readonly table: string;
  readonly cases: readonly CaseState[];
  /** Names of the rows whose input no longer exists. */
  readonly orphaned: readonly string[];
}
