import path from 'node:path';
import { ClientError, UsageError } from '../../client/errors.js';
import type { Reporter } from '../../client/reporter.js';
import { exitCodes, quoteName } from '../../contract/index.js';
import { makeDirectory, readJsonFile, writeJsonFile } from '../../files/index.js';
import type { FoundFiles } from '../inputs/index.js';
import type { Deidentifier, Mode } from './deidentifier.js';
import { profileKey } from './key.js';
import { NeutralNames, type OriginalNames } from './names.js';

/** What a person wants, by flags, environment and profile. */
export interface DeidentifyChoice {
  /** Null where nothing asks for it. */
  readonly mode: Mode | null;
  /** Whether it is refused for this command, so that not even the server's wish counts. */
  readonly isRefused: boolean;
  /** Kinds of files that are sent although nothing can make them neutral. */
  readonly allowed: readonly string[];
  readonly configDir: string;
  /** The profile whose key is used. */
  readonly profile: string;
}

/** What a server says of it. */
export interface DeidentifyTerms {
  /** Whether it takes de-identified submissions alone; null if it does not know the field that says that one is. */
  readonly requiresDeidentified: boolean | null;
}

/** How the files of one submission leave. */
export interface Outgoing {
  readonly deidentifier: Deidentifier;
  readonly names: NeutralNames;
  /** The idempotency key that a server gets instead of this one. */
  readonly keyFor: (key: string) => string;
}

/** What is noted of it in a record. */
export interface DeidentifiedNote {
  readonly mode: Mode;
  readonly allowed: readonly string[];
}

export const noteOf = (outgoing: Pick<Outgoing, 'deidentifier'> | null): DeidentifiedNote | null =>
  outgoing && { mode: outgoing.deidentifier.mode, allowed: [...outgoing.deidentifier.allowed].sort() };

/** @param first the number of the first case */
export const outgoingOf = (
  deidentifier: Deidentifier | null,
  found: FoundFiles,
  first = 1,
): Outgoing | null =>
  deidentifier && {
    deidentifier,
    names: new NeutralNames(found, deidentifier.mode === 'full', first),
    // Other names of the same files make another submission.
    keyFor: (key) => deidentifier.keyFor(`${key} ${first}`),
  };

/** The names that the person knows, by those under which their files have left; none where they have left under their own. */
export const originalsOf = (outgoing: Outgoing | null): OriginalNames => outgoing?.names.originals ?? {};

/** Said once for each configuration directory. */
const ofFaces =
  'A scan of a head shows a face, by which a person may be recognised: nothing here removes it (docs/privacy.md)';

function tellOfFaces(configDir: string, reporter: Reporter): void {
  const file = path.join(configDir, 'told.json');
  try {
    if (readJsonFile(file) !== undefined) return;
    makeDirectory(configDir, 0o700);
    writeJsonFile(file, { faces: true }, { isKept: false });
  } catch {
    // It is said again the next time.
  }
  reporter.note(ofFaces);
}

/**
 * What makes the files of a command neutral; null where they leave as they are.
 * @throws UsageError where the server takes nothing else and the person refuses it
 */
export async function deidentifierFor(
  choice: DeidentifyChoice,
  { requiresDeidentified }: DeidentifyTerms,
  server: string,
  reporter: Reporter,
): Promise<Deidentifier | null> {
  const { mode: asked, isRefused, allowed, configDir, profile } = choice;
  if (requiresDeidentified && isRefused)
    throw new UsageError(`${server} takes de-identified files alone; leave out --no-deidentify`);
  if (requiresDeidentified && asked === 'names')
    throw new UsageError(
      `${server} takes de-identified files alone, and --deidentify=names makes nothing but their names neutral; give --deidentify`,
    );
  if (requiresDeidentified && asked === null)
    reporter.note(
      `${server} takes de-identified files alone: they are de-identified here, as with --deidentify`,
    );
  const mode = requiresDeidentified ? 'full' : isRefused ? null : asked;
  if (mode === null) {
    if (allowed.length > 0)
      throw new UsageError('--allow-identifying is about what --deidentify refuses; give both, or neither');
    return null;
  }
  // Imported when it is used, to keep start-up fast.
  const { Deidentifier, refusalNames } = await import('./deidentifier.js');
  const unknown = allowed.find((kind) => !refusalNames.includes(kind));
  if (unknown !== undefined)
    throw new UsageError(
      `--allow-identifying ${quoteName(unknown)}: there is no such kind; there are ${refusalNames.join(', ')}`,
    );
  tellOfFaces(configDir, reporter);
  return new Deidentifier(mode, new Set(allowed), profileKey(configDir, profile));
}

/** Data sets are made of names: which files are cases, groups and labels is told by them. */
export const refusedDataSet = (): ClientError =>
  new ClientError(
    'Data sets for fine-tuning cannot be de-identified: their names say what belongs together. ' +
      'Give --no-deidentify to send this one as it is',
    exitCodes.usage,
  );
