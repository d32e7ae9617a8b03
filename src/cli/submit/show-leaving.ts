import path from 'node:path';
import { type ChooseSeries, findInputs } from '../../client/case/index.js';
import type { FoundFiles } from '../../client/found-files.js';
import type { DeidentifyChoice } from '../../client/outgoing.js';
import type { Reporter } from '../../client/reporter.js';
import type { Submission } from '../../client/submission.js';
import { type LeavingPlan, planLeaving } from '../../client/submit/index.js';
import { counted, flagName, formatBytes, oneLine } from '../../contract/index.js';
import { imaging } from '../../imaging/index.js';
import { type CommandIo, formatTable, openReporter } from '../terminal/index.js';

/** What would leave, in the document of `--dry-run --json`. */
export interface LeavingDocument extends LeavingPlan {
  /** The values that are sent as they were typed, by their fields. */
  readonly typed: Readonly<Record<string, unknown>>;
}

type Typed = Pick<Submission, 'operation' | 'fields' | 'options'>;

/** What a person has typed that is sent as it is. */
export const typedOf = ({ fields, options }: Typed): LeavingDocument['typed'] => ({ ...fields, ...options });

/** How the files of a dry run would leave. No server is asked. */
export const prepareDryRun = (
  cases: readonly FoundFiles[],
  deidentify: DeidentifyChoice,
  reporter: Reporter,
) => imaging.prepare(cases, { deidentify, requiresDeidentified: null, server: '' }, reporter);

/** Names by the number of files that have them: `in 2 files: dim, pixdim; in 1 file: descrip`. */
function namesIn(counts: Readonly<Record<string, number>>): string {
  const byCount = new Map<number, string[]>();
  for (const [name, count] of Object.entries(counts))
    byCount.set(count, [...(byCount.get(count) ?? []), name]);
  return [...byCount]
    .sort(([a], [b]) => b - a)
    .map(([count, names]) => `in ${counted(count, 'file')}: ${names.join(', ')}`)
    .join('; ');
}

/** What is said below the table of files. */
export function tellLeaving(
  { deidentify, kept, removed }: Pick<LeavingPlan, 'deidentify' | 'kept' | 'removed'>,
  { operation, fields, options }: Typed,
  reporter: Reporter,
): void {
  const keeps = namesIn(kept);
  const loses = namesIn(removed);
  if (keeps !== '') reporter.note(oneLine(`Kept ${keeps}`));
  if (loses !== '') reporter.note(oneLine(`Removed ${loses}`));
  const how = {
    full: 'De-identified: only what is kept, and the voxels, would leave',
    names: 'Only the names are neutral: everything inside the files would leave as it is',
  };
  reporter.note(
    deidentify === null
      ? 'Files and their names would leave as they are, unless the server takes de-identified ones alone'
      : how[deidentify],
  );
  const given = { ...fields, ...options };
  const flags = operation.fields.filter(({ name }) => Object.hasOwn(given, name)).map(flagName);
  if (flags.length > 0) reporter.note(`Sent as typed: ${flags.map((flag) => `--${flag}`).join(', ')}`);
}

export interface ShowOptions {
  readonly output: string;
  readonly chooseSeries: ChooseSeries | undefined;
  readonly io: CommandIo;
  readonly json: boolean;
  readonly signal: AbortSignal;
}

/** Shows what would leave of a submission. @throws UsageError for what cannot be sent */
export async function showLeaving(
  submission: Omit<Submission, 'app'>,
  choice: DeidentifyChoice,
  { output, chooseSeries, io, json, signal }: ShowOptions,
): Promise<LeavingDocument> {
  const reporter = await openReporter(io, { stdoutIsTaken: json, all: false });
  try {
    const place = { directory: path.resolve(output), mayReplace: false };
    const finding = { place, chooseSeries, isListed: true, reporter, signal };
    const found = await findInputs(imaging, submission, finding, async () => null);
    const outgoing = (await prepareDryRun([found], choice, reporter)).outgoing(found);
    const plan = await planLeaving(found, outgoing, reporter, signal);
    for (const note of found.notes) reporter.note(note);
    const document = { ...plan, typed: typedOf(submission) };
    if (json) return document;
    const rows = plan.files.map((each) => [
      each.name,
      formatBytes(each.bytes),
      String(each.files),
      oneLine(each.path),
    ]);
    await io.writeOut(`${formatTable(['LEAVES AS', 'BYTES', 'FILES', 'PATH'], rows).join('\n')}\n`);
    tellLeaving(plan, submission, reporter);
    reporter.note(`${counted(plan.files.length, 'volume')}; nothing was sent`);
    return document;
  } finally {
    reporter.close();
  }
}
