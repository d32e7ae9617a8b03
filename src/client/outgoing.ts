import type { ListedFile, PackedPiece } from '../archive/index.js';
import type { FoundFiles, NamedUnit } from './found-files.js';

/** What is de-identified: everything that leaves, or the names of files alone. */
export type Mode = 'full' | 'names';

/** What a person wants, by flags, environment and profile. */
export interface DeidentifyChoice {
  /** Null where nothing asks for it. */
  readonly mode: Mode | null;
  /** Whether the person refuses it for this command; then the server's requirement does not turn it on. */
  readonly isRefused: boolean;
  /** Kinds of files that are sent although nothing can make them neutral. */
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

/** The names that the person knows, by the neutral names under which the files have left: `case-0001`. */
export type OriginalNames = Readonly<Record<string, string>>;

/** A neutral name in a text, as a word of its own or before an ending. */
const anyNeutral = /(?<![\p{L}\p{N}])case-\d{4,}(?!\d)/gu;

/** A text in which neutral names are replaced by those that the person knows. */
export const withOriginals = (text: string, originals: OriginalNames): string =>
  text.replace(anyNeutral, (name) => (Object.hasOwn(originals, name) ? (originals[name] ?? name) : name));

/** Where the contents of neutral files are made. */
export interface Workplace {
  /** The path of a file that does not exist yet, in a private directory. */
  readonly newFile: () => Promise<string>;
  readonly signal?: AbortSignal | undefined;
  readonly onBytes: (bytes: number) => void;
}

/** Counts what is kept and what is removed, for a person. */
export interface Tally {
  readonly add: (leaving: { readonly kept: readonly string[]; readonly removed: readonly string[] }) => void;
}

/** Bytes of a file that leave. */
export interface PreparedFile {
  /** The file that the ranges refer to. */
  readonly path: string;
  readonly pieces: readonly PackedPiece[];
  readonly size: number;
}

/** How the files of one submission leave that are de-identified. */
export interface Outgoing {
  readonly note: DeidentifiedNote;
  readonly originals: OriginalNames;
  /** What was found, under neutral names: for what a person is shown of it. */
  readonly renamed: FoundFiles;
  /** The name under which a file, a series or a store leaves. */
  nameOf(unit: NamedUnit): string;
  /** The idempotency key that a server gets instead of this one, which could be recognised. */
  keyFor(key: string): string;
  /** The content of a file that is sent by itself; null if it leaves as it is. @throws UsageError for what cannot be de-identified */
  fileOf(unit: NamedUnit & { kind: 'file' }, work: Workplace): Promise<PreparedFile | null>;
  /** The files of a series or a store as they leave together. @throws UsageError for what cannot be de-identified */
  filesOf(unit: NamedUnit & { kind: 'series' | 'store' }, work: Workplace): Promise<ListedFile[]>;
  /** Counts what leaves of a volume without making it. @returns its bytes, those of the file where it would be packed anew */
  describe(unit: NamedUnit, work: Workplace, tally: Tally): Promise<number>;
}
