import path from 'node:path';
import type { Preparation, Preparing } from '../../client/case/index.js';
import { UsageError } from '../../client/errors.js';
import type { FoundFiles } from '../../client/found-files.js';
import type { DeidentifiedNote, Outgoing } from '../../client/outgoing.js';
import type { Reporter } from '../../client/reporter.js';
import { quoteName } from '../../contract/index.js';
import { makeDirectory, readJsonFile, writeJsonFile } from '../../files/index.js';
import type { Deidentifier } from './deidentifier.js';
import { profileKey } from './key.js';
import { NeutralNames, namesLikeNeutral } from './names.js';

/**
 * Prepares the files of one job for sending.
 * @param own names that must not be given, because they occur among the user's files
 * @param first the number of the first case in its neutral name
 */
function outgoingOf(
  deidentifier: Deidentifier,
  found: FoundFiles,
  own: ReadonlySet<string>,
  first = 1,
): Outgoing {
  if (found.dataSet)
    throw new UsageError(
      'Data sets for fine-tuning cannot be de-identified: their names say what belongs together. ' +
        'Give --no-deidentify to send this one as it is',
    );
  const names = new NeutralNames(found, deidentifier.mode === 'full', own, first);
  return {
    note: noteOf(deidentifier),
    originals: names.originals,
    renamed: names.applied(found),
    nameOf: (unit) => names.nameOf(unit),
    // The same files under other names are another submission.
    keyFor: (key) => deidentifier.keyFor([key, first, ...Object.keys(names.originals)].join(' ')),
    fileOf: (unit, work) => deidentifier.prepare(unit, names, work),
    filesOf: (unit, work) => deidentifier.filesTogether(unit, work),
    describe: (unit, work, tally) => deidentifier.describe(unit, names, work, tally),
  };
}

const noteOf = ({ mode, allowed }: Deidentifier): DeidentifiedNote => ({
  mode,
  allowed: [...allowed].sort(),
});

/** Shown once for each configuration directory. */
const ofFaces =
  'A scan of a head shows a face, by which a person may be recognised: nothing here removes it (docs/privacy.md)';

function tellOfFaces(configDir: string, reporter: Reporter): void {
  const file = path.join(configDir, 'told.json');
  try {
    if (readJsonFile(file) !== undefined) return;
    makeDirectory(configDir, 0o700);
    writeJsonFile(file, { faces: true }, { isKept: false });
  } catch {
    // The note is shown again next time.
  }
  reporter.note(ofFaces);
}

/**
 * The de-identifier for the files of a command; null if they are sent unchanged.
 * @throws UsageError if the server requires de-identified files and the user refuses
 */
async function deidentifierFor(
  { deidentify, requiresDeidentified, server }: Omit<Preparing, 'conversion'>,
  reporter: Reporter,
): Promise<Deidentifier | null> {
  const { mode: asked, isRefused, allowed, configDir, profile } = deidentify;
  if (requiresDeidentified && isRefused)
    throw new UsageError(`${server} accepts only de-identified files; leave out --no-deidentify`);
  if (requiresDeidentified && asked === 'names')
    throw new UsageError(
      `${server} accepts only de-identified files, and --deidentify=names makes nothing but their names neutral; give --deidentify`,
    );
  if (requiresDeidentified && asked === null)
    reporter.note(
      `${server} accepts only de-identified files: they are de-identified here, as with --deidentify`,
    );
  const mode = requiresDeidentified ? 'full' : isRefused ? null : asked;
  if (mode === null) {
    if (allowed.length > 0)
      throw new UsageError('--allow-identifying is about what --deidentify refuses; give both, or neither');
    return null;
  }
  // Imported on first use to keep start-up fast.
  const { Deidentifier, refusalNames } = await import('./deidentifier.js');
  const unknown = allowed.find((kind) => !refusalNames.includes(kind));
  if (unknown !== undefined)
    throw new UsageError(
      `--allow-identifying ${quoteName(unknown)}: there is no such kind; there are ${refusalNames.join(', ')}`,
    );
  tellOfFaces(configDir, reporter);
  return new Deidentifier(mode, new Set(allowed), profileKey(configDir, profile));
}

/** Prepares the files of a command for sending. @param cases what is sent, in one job or in several */
export async function prepareLeaving(
  cases: readonly FoundFiles[],
  preparing: Omit<Preparing, 'conversion'>,
  reporter: Reporter,
): Promise<Preparation> {
  const deidentifier = await deidentifierFor(preparing, reporter);
  const own = namesLikeNeutral(cases);
  return {
    note: deidentifier && noteOf(deidentifier),
    outgoing: (found, first) => deidentifier && outgoingOf(deidentifier, found, own, first),
  };
}
