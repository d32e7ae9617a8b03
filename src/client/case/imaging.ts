import type { AppAnswer } from '../connection/index.js';
import type { FoundFiles, Series } from '../found-files.js';
import type { DeidentifiedNote, DeidentifyChoice, OriginalNames, Outgoing } from '../outgoing.js';
import type { Reporter } from '../reporter.js';
import type { ResultFormat } from '../result-formats.js';
import type { Submission } from '../submission.js';
import type { CaseRecord, Conversion } from './record.js';

/** Chooses among the series of one directory; null means all of them. */
export type ChooseSeries = (series: readonly Series[]) => Promise<readonly Series[] | null>;

/** Options for finding files. */
export interface Finding {
  /** Where results go. They are not sent along with a directory that contains them. Null if there are no results. */
  readonly output: {
    readonly directory: string;
    /** Whether results replace existing files of the same names; these must not be inputs. */
    readonly mayReplace: boolean;
  } | null;
  /** Chooses among the series of a directory; without it all of them are sent. */
  readonly chooseSeries?: ChooseSeries | undefined;
  /** Describes the app; null if the server gives no description. Called only if the files alone do not settle a question. */
  readonly describeApp?: () => Promise<AppAnswer | null>;
  /**
   * Whether each case is sent separately. Files of the same name in two cases then do not conflict, and a file that cannot be
   * sent gets a `fault`.
   */
  readonly isEach?: boolean;
  /** With `isEach`, whether cases that lack a file of a group are left out. */
  readonly skipsIncomplete?: boolean;
  /** Whether files that cannot be sent are listed in `refused` instead of causing an error. */
  readonly listsRefused?: boolean;
  /** Whether the volumes are shown in a table, so that the notes need not list them. */
  readonly isListed?: boolean;
  readonly reporter: Reporter;
  readonly signal?: AbortSignal | undefined;
}

/** The conversion requested with --as. */
export interface ConversionRequest {
  readonly formats: readonly ResultFormat[];
  /** Whether label maps on other grids than their scans are refused. */
  readonly isStrict: boolean;
}

/** How a submission is to be sent, and its result converted. */
export interface Preparing {
  readonly deidentify: DeidentifyChoice;
  /** Whether the server takes only de-identified submissions; null if it does not say. */
  readonly requiresDeidentified: boolean | null;
  /** The server's address, for messages. */
  readonly server: string;
  readonly conversion?: ConversionRequest | undefined;
}

/** How the files of a command are prepared for sending (de-identified or not). */
export interface Preparation {
  /** Null if files are sent unchanged. */
  readonly note: DeidentifiedNote | null;
  /**
   * @param first the number of the first case, for its neutral name
   * @returns null if files are sent unchanged
   * @throws ClientError for a data set, which cannot be de-identified
   */
  outgoing(found: FoundFiles, first?: number): Outgoing | null;
}

/** How a result is converted. */
export interface Converting {
  readonly request: ConversionRequest;
  /** What was sent. */
  readonly found: FoundFiles;
  /** The record of the result, without its files. */
  readonly record: CaseRecord;
}

/** What a terminal can show, and how large it is. */
export interface Canvas {
  /** In colours, two pixels are drawn as one half block. Without colours, a label is drawn as a digit or a letter. */
  readonly look: 'true colour' | '256 colours' | 'characters';
  /** Characters in a row. */
  readonly columns: number;
  /** Rows on the screen. */
  readonly rows: number;
}

/** A label of a segmentation, measured over the whole volume. */
export interface ShownLabel {
  readonly value: number;
  readonly name: string;
  readonly voxels: number;
  readonly millilitres: number;
}

/** A volume in millilitres, with three significant digits. */
export const millilitresText = (millilitres: number): string =>
  `${millilitres >= 100 ? Math.round(millilitres) : Number(millilitres.toPrecision(3))} ml`;

/** A scan and its results. Paths are as typed or found. */
export interface ShownCase {
  readonly name: string;
  /** Its status in the table beside the result: `done`, `failed`; null without a table. */
  readonly status: string | null;
  readonly scan: string | null;
  /** The first segmentation. */
  readonly mask: string | null;
  /** Continuous volumes that were made from the scan, such as an uncertainty. */
  readonly maps: readonly string[];
  /** The labels of `mask`. */
  readonly labels: readonly ShownLabel[];
  /** All segmentations, `mask` first. */
  readonly layers: readonly {
    readonly name: string;
    readonly path: string;
    readonly labels: readonly ShownLabel[];
  }[];
  /** What the user should know: which scan was found, which of several was chosen, and why a case failed. */
  readonly notes: readonly string[];
}

/** A case as it is drawn on a terminal. */
export interface CaseDrawing {
  readonly shown: ShownCase;
  /** One for each segmentation and each map. Pictures are lines with control sequences. */
  readonly layers: readonly {
    readonly name: string;
    readonly picture: string;
    readonly notes: readonly string[];
  }[];
  /** For each of `labels`, how it looks in the pictures. */
  readonly swatches: readonly string[];
}

/** Options for showing cases. */
export interface Showing {
  /** Names of labels, or a JSON file with them. They take precedence over the names in records. */
  readonly labels: CaseRecord['labels'] | string;
  /** Which volume to show if a file holds several, counted from 1. */
  readonly frame: number;
  /** Number of slices of each plane on a sheet or a page; null for the default. */
  readonly slices: number | null;
  /** The directory for results; earlier results in it are not shown. By default, all are shown. */
  readonly output?: string;
  /** The contact sheet; null for none. Without a file, its bytes are returned. */
  readonly sheet: { readonly file: string | null } | null;
  /** The page to write; null for none. */
  readonly page: { readonly file: string; readonly hasVolumes: boolean } | null;
  /** Where the first cases are drawn; null if cases are not drawn on a terminal. */
  readonly terminal: {
    readonly canvas: Canvas;
    readonly maxCases: number;
    readonly draw: (drawing: CaseDrawing) => Promise<void>;
  } | null;
  /** Aborted when the user ends the command. No further case is read, and no incomplete file is left. */
  readonly signal: AbortSignal;
}

/** The outcome of showing cases. */
export interface Shown {
  readonly cases: readonly ShownCase[];
  /** The contact sheet as a PNG; null if none was requested, or if it was written to a file. */
  readonly sheet: Uint8Array | null;
  /** Volumes that are not shown, each with the reason. */
  readonly problems: readonly string[];
  /** Notes about scans that were found through a record. */
  readonly foundByRecord: ReadonlySet<string>;
  /** Number of cases that were not drawn on the terminal for lack of room. */
  readonly more: number;
}

/** Everything that the client has to know about scans. The command line passes the implementation in. */
export interface Imaging {
  /**
   * Finds all files of a submission and the names under which they are sent.
   * @throws UsageError for paths without anything to send, and for files that cannot be sent; the reason of the signal
   */
  find(
    submission: Pick<Submission, 'operation' | 'files' | 'archive' | 'allFiles' | 'selection'>,
    finding: Finding,
  ): Promise<FoundFiles>;
  /**
   * Decides how the files of cases are sent, and checks that results can be converted as requested. Loads what `convert` needs,
   * because the program may be upgraded while the job runs.
   * @throws UsageError for results that cannot be converted this way, and if the server requires de-identified files but the
   *   user refuses
   */
  prepare(cases: readonly FoundFiles[], preparing: Preparing, reporter: Reporter): Promise<Preparation>;
  /** Restores the original names of a result's files, also inside text files. @throws the system's error */
  restoreNames(directory: string, originals: OriginalNames, reporter: Reporter): Promise<void>;
  /** Converts the volumes of a result. @throws the system's error if a file cannot be written */
  convert(directory: string, converting: Converting, reporter: Reporter): Promise<Conversion>;
  /**
   * Finds which scans and results belong together, draws them, and measures their labels.
   * @param paths files and directories in any order
   * @throws UsageError for paths without a volume, and for volumes that cannot be drawn; the reason of the signal
   */
  show(paths: readonly string[], showing: Showing, reporter: Reporter): Promise<Shown>;
}
