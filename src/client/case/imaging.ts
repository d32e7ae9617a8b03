import type { AppAnswer } from '../connection/index.js';
import type { FoundFiles, Series } from '../found-files.js';
import type { DeidentifiedNote, DeidentifyChoice, OriginalNames, Outgoing } from '../outgoing.js';
import type { Reporter } from '../reporter.js';
import type { ResultFormat } from '../result-formats.js';
import type { Submission } from '../submission.js';

/** Where results go. */
export interface ResultPlace {
  /** Its content is not sent along with a directory that contains it. */
  readonly directory: string;
  /** Whether results replace files of the same names: none of these may be an input. */
  readonly mayReplace: boolean;
}

/** Chooses among the series of one directory; null means all of them. */
export type ChooseSeries = (series: readonly Series[]) => Promise<readonly Series[] | null>;

/** How files are found. */
export interface Finding {
  /** Null if there are no results. */
  readonly place: ResultPlace | null;
  /** Chooses among the series of a directory; without it all of them are sent. */
  readonly chooseSeries?: ChooseSeries | undefined;
  /** Whether the app takes segmentations in this group of inputs, counted from 0. Asked only if there are any. */
  readonly takesSegmentations?: (group: number) => Promise<boolean>;
  /**
   * Whether each case is sent by itself: files of one name in two cases then do not get into each other's way, and a file
   * that cannot be sent has its `fault`.
   */
  readonly isEach?: boolean;
  /** With `isEach`, whether cases that lack a file of a group are left out. */
  readonly skipsIncomplete?: boolean;
  /** Whether what cannot be sent is listed in `refused` instead of being an error. */
  readonly listsRefused?: boolean;
  /** Whether the volumes are shown in a table, so that the notes need not list them. */
  readonly isListed?: boolean;
  readonly reporter: Reporter;
  readonly signal?: AbortSignal | undefined;
}

/** What a person asked for with --as. */
export interface ConversionRequest {
  readonly formats: readonly ResultFormat[];
  /** Whether label maps on other grids than their scans are refused. */
  readonly isStrict: boolean;
}

/** What became of the formats that were asked for. */
export interface Conversion {
  readonly as: readonly ResultFormat[];
  /**
   * Files of the result that were written from others of it; from several masks, there is one entry for each. Names are
   * paths with slashes in its directory.
   */
  readonly outputs: readonly { readonly from: string; readonly as: ResultFormat; readonly name: string }[];
  /** Why something was not converted, in sentences without a full stop. */
  readonly problems: readonly string[];
}

/** How a submission is to leave, and come back. */
export interface Preparing {
  readonly deidentify: DeidentifyChoice;
  /** Whether the server takes only de-identified submissions; null if it does not say. */
  readonly requiresDeidentified: boolean | null;
  /** The server's address, for messages. */
  readonly server: string;
  readonly conversion?: ConversionRequest | undefined;
}

/** How the files of a command leave. */
export interface Preparation {
  /** Null where files leave as they are. */
  readonly note: DeidentifiedNote | null;
  /**
   * @param first the number of the first case in its neutral name
   * @returns null where files leave as they are
   * @throws ClientError for a data set, which cannot be de-identified
   */
  outgoing(found: FoundFiles, first?: number): Outgoing | null;
}

/** What made a result, and what it calls its labels. */
export interface ResultFacts {
  readonly app: string;
  readonly appVersion: string | null;
  /** The version of this program. */
  readonly version: string;
  readonly madeAt: Date;
  readonly terminology: NonNullable<(AppAnswer & { available: true })['terminology']>;
  /** The unit of the intensities that come back; null if the app names none. */
  readonly unit: string | null;
}

/** What is done with the files of a result, in the private directory where it is completed. */
export interface Finishing {
  /** Names to restore in the names of files, and in files of text. */
  readonly originals?: OriginalNames;
  readonly conversion?:
    | { readonly request: ConversionRequest; readonly found: FoundFiles; readonly facts: ResultFacts }
    | undefined;
}

/** Everything that the client has to know about scans. The command line passes the implementation in. */
export interface Imaging {
  /**
   * Finds all files of a submission and the names under which they are sent.
   * @throws UsageError for paths without anything to send, and for files that cannot be sent; the reason of the signal
   */
  find(
    submission: Pick<Submission, 'files' | 'archive' | 'allFiles' | 'selection'>,
    finding: Finding,
  ): Promise<FoundFiles>;
  /**
   * Decides how the files of cases leave, and checks that results can be converted as asked. Loads what `finish` needs: the
   * program may be upgraded while the job runs.
   * @throws UsageError for results that cannot be converted so, and where the server takes only de-identified files and the
   * person refuses that
   */
  prepare(cases: readonly FoundFiles[], preparing: Preparing, reporter: Reporter): Promise<Preparation>;
  /**
   * Restores the names in a result, then converts it.
   * @returns what became of the conversion; null if none was asked for
   * @throws the system's error for what cannot be written
   */
  finish(directory: string, finishing: Finishing, reporter: Reporter): Promise<Conversion | null>;
}
