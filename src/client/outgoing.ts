import type { ListedFile, PackedPiece } from '../archive/index.js';
import type { FoundFiles, NamedUnit } from './found-files.js';

/** What is de-identified: everything that is sent, or only the file names. */
export type Mode = 'full' | 'names';

/** The user's choice, from flags, environment and profile. */
export interface DeidentifyChoice {
  /** Null if de-identification is not requested. */
  readonly mode: Mode | null;
  /** Whether the user refuses de-identification for this command, so that the server's requirement does not turn it on. */
  readonly isRefused: boolean;
  /** Kinds of files that are sent although they cannot be de-identified. */
  readonly allowed: readonly string[];
  readonly configDir: string;
  /** The profile whose key is used. */
  readonly profile: string;
}

/** How inputs were de-identified, for a record. */
export interface DeidentifiedNote {
  readonly mode: Mode;
  readonly allowed: readonly string[];
}

/** Original file names by the neutral names under which the files were sent: `case-0001`. */
export type OriginalNames = Readonly<Record<string, string>>;

/** A neutral name in a text, as a separate word or before a file ending. */
const anyNeutral = /(?<![\p{L}\p{N}])case-\d{4,}(?!\d)/gu;

/** Replaces neutral names in a text by the original ones. */
export const withOriginals = (text: string, originals: OriginalNames): string =>
  text.replace(anyNeutral, (name) => (Object.hasOwn(originals, name) ? (originals[name] ?? name) : name));

/** What a de-identifier needs to write a file: a place for the new content, and a way to report its progress. */
export interface Workplace {
  /** The path of a file that does not exist yet, in a private directory. */
  readonly newFile: () => Promise<string>;
  readonly signal?: AbortSignal | undefined;
  readonly onBytes: (bytes: number) => void;
}

/** Counts which attributes are kept and removed, for display. */
export interface Tally {
  readonly add: (attributes: {
    readonly kept: readonly string[];
    readonly removed: readonly string[];
  }) => void;
}

/** The bytes of a file that are sent. */
export interface PreparedFile {
  /** The file that `pieces` refer to. */
  readonly path: string;
  readonly pieces: readonly PackedPiece[];
  readonly size: number;
}

/** How the files of one submission are de-identified before they are sent. */
export interface Outgoing {
  readonly note: DeidentifiedNote;
  readonly originals: OriginalNames;
  /** The found files under neutral names, for display. */
  readonly renamed: FoundFiles;
  /** The name under which a file, a series or a store is sent. */
  nameOf(unit: NamedUnit): string;
  /** The idempotency key sent to a server in place of this one, which could be recognised. */
  keyFor(key: string): string;
  /**
   * The content of a file that is sent separately; null if it is sent unchanged. @throws UsageError for a file that cannot be
   * de-identified
   */
  fileOf(unit: NamedUnit & { kind: 'file' }, work: Workplace): Promise<PreparedFile | null>;
  /** The files of a series or a store as they are sent, together. @throws UsageError for files that cannot be de-identified */
  filesOf(unit: NamedUnit & { kind: 'series' | 'store' }, work: Workplace): Promise<ListedFile[]>;
  /**
   * Counts what would be sent of a volume, without creating it. @returns its size in bytes; the size of the original file if it
   * would be repacked
   */
  describe(unit: NamedUnit, work: Workplace, tally: Tally): Promise<number>;
}
