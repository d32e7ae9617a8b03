import path from 'node:path';
import type { ConversionRequest } from '../../client/case/index.js';
import {
  type CaseStatus,
  type CohortSummary,
  findCasesToSend,
  isOver,
  numberedCases,
  runCohort,
} from '../../client/cohort/index.js';
import type { Connection } from '../../client/connection/index.js';
import { ClientError, UsageError } from '../../client/errors.js';
import type { FoundCase } from '../../client/found-files.js';
import type { DeidentifyChoice } from '../../client/outgoing.js';
import type { Submission } from '../../client/submission.js';
import { type LeavingPlan, planLeaving, type SentFiles, sentFilesOf } from '../../client/submit/index.js';
import {
  counted,
  defaultOutput,
  exitCodes,
  formatBytes,
  oneLine,
  quotePath,
  someOf,
} from '../../contract/index.js';
import { imaging } from '../../imaging/index.js';
import { isToStdout } from '../jobs/index.js';
import { type CommandIo, formatTable, openReporter } from '../terminal/index.js';
import { seriesChoice } from './choose-series.js';
import { type CaseDocument, caseDocument, openCohortView } from './cohort-view.js';
import type { EachFlags } from './each-flags.js';
import { type LeavingDocument, prepareDryRun, tellLeaving, typedOf } from './show-leaving.js';

/** The flags that this reads. */
type CohortFlags = Partial<EachFlags> & {
  readonly output?: string | undefined;
  readonly force: boolean;
  readonly wait: number;
  readonly 'kill-timeout': number;
  readonly series?: readonly string[] | undefined;
};

/** A case that would be sent, in the document of `--dry-run --json`. */
interface PlannedCase {
  readonly case: string;
  readonly sent: SentFiles['sent'];
  readonly bytes: number;
}

/** What became of the cases. */
interface CohortDocument {
  readonly output: string;
  /** The path of `cases.csv`. */
  readonly table: string;
  readonly cases: readonly CaseDocument[];
}

/** What `--each --json` prints: with `--dry-run` nothing but the cases. */
export type EachDocument =
  | CohortDocument
  | ({ readonly cases: readonly PlannedCase[] } & Omit<LeavingDocument, 'files'>);

const defaultAtMost = 4;

/** The directory that the results go to. @throws UsageError for stdout */
export function outputOfEach(flags: Pick<CohortFlags, 'output' | 'force'>): string {
  if (isToStdout(flags)) throw new UsageError('With --each there are many results: name a directory with -o');
  if (flags.output === '') throw new UsageError('--output is empty; name a directory');
  return path.resolve(flags.output ?? defaultOutput);
}

/** Adds up how many files keep or lose something. */
function addUp(into: Record<string, number>, counts: Readonly<Record<string, number>>): void {
  for (const [name, count] of Object.entries(counts)) into[name] = (into[name] ?? 0) + count;
}

/** Lists the cases without sending any. @throws UsageError for what cannot be sent or paired */
export async function listCases(
  submission: Omit<Submission, 'app'>,
  flags: CohortFlags,
  io: CommandIo,
  {
    json,
    deidentify,
  }: {
    readonly json: boolean;
    readonly deidentify: DeidentifyChoice;
  },
): Promise<EachDocument> {
  const reporter = await openReporter(io, { stdoutIsTaken: json, all: false });
  try {
    const chooseSeries = seriesChoice(flags.series, io, { mayAsk: false });
    const { cases: found } = await findCasesToSend(submission, {
      imaging,
      output: outputOfEach(flags),
      chooseSeries,
      reporter,
      skipsIncomplete: flags['skip-incomplete'] ?? false,
    });
    const preparation = await prepareDryRun(
      found.map(({ files }) => files),
      deidentify,
      reporter,
    );
    const names = found.map(({ name }) => name);
    const numbers = preparation.note
      ? numberedCases(outputOfEach(flags), names, { isWritten: false })
      : new Map<string, number>();
    const [kept, removed]: [Record<string, number>, Record<string, number>] = [{}, {}];
    const cases: PlannedCase[] = [];
    const planOf = async ({ name, files }: FoundCase): Promise<PlannedCase> => {
      const outgoing = preparation.outgoing(files, numbers.get(name));
      const plan = await planLeaving(files, outgoing, reporter);
      addUp(kept, plan.kept);
      addUp(removed, plan.removed);
      const { sent } = sentFilesOf(outgoing?.renamed ?? files);
      return { case: name, sent, bytes: plan.files.reduce((sum, { bytes }) => sum + bytes, 0) };
    };
    for (const each of found) {
      const fails = (why: string) => reporter.note(oneLine(`${each.name} fails: ${why}`));
      if (each.fault !== null) fails(each.fault);
      const planned = await planOf(each).catch((error: unknown) => {
        if (!(error instanceof ClientError)) throw error;
        if (each.fault === null) fails(error.message);
        return null;
      });
      if (planned) cases.push(planned);
    }
    const about = {
      deidentify: preparation.note?.mode ?? null,
      kept,
      removed,
    } satisfies Partial<LeavingPlan>;
    if (json) return { cases, ...about, typed: typedOf(submission) };
    const rows = cases.map((each) => {
      const files = Object.values(each.sent).flat(2);
      const leaves = preparation.note ? [files.map((file) => file.name).join(', ')] : [];
      return [
        each.case,
        ...leaves,
        formatBytes(each.bytes),
        oneLine(files.map((file) => file.path).join(', ')),
      ];
    });
    const heading = ['CASE', ...(preparation.note ? ['LEAVES AS'] : []), 'BYTES', 'FILES'];
    await io.writeOut(`${formatTable(heading, rows).join('\n')}\n`);
    tellLeaving(about, submission, reporter);
    reporter.note(`${counted(cases.length, 'case')}; nothing was sent`);
    return { cases, ...about, typed: typedOf(submission) };
  } finally {
    reporter.close();
  }
}

/** The summary at the end: counts, the failures, where the table is. */
function summaryLines({ cases, table, orphaned }: CohortSummary): string[] {
  const of = (status: CaseStatus) => cases.filter((each) => each.status === status);
  const [done, failed] = [of('done'), of('failed')];
  const edited = cases.filter((each) => each.edited.length > 0);
  const before = done.filter(({ isNew }) => !isNew).length;
  const left = cases.length - done.length - failed.length;
  const counts = [
    `${done.length} done${before > 0 ? ` (${before} of them before)` : ''}`,
    ...(failed.length > 0 ? [`${failed.length} failed`] : []),
    ...(left > 0 ? [`${left} not computed`] : []),
  ];
  return [
    `${counted(cases.length, 'case')}: ${counts.join(', ')}`,
    ...failed.map(({ name, reason }) => oneLine(`  ${name}: ${reason ?? 'no reason given'}`)),
    ...edited.map((each) => oneLine(`  ${each.name}: changed by a person: ${each.edited.join(', ')}`)),
    ...(orphaned.length > 0
      ? [oneLine(`The table marks results whose input no longer exists: ${someOf(orphaned)}`)]
      : []),
    `The table is ${quotePath(table)}`,
  ];
}

function documentOf({ output, table, cases }: CohortSummary): CohortDocument {
  const ended = cases.map((each) => (isOver(each) ? each : { ...each, status: 'waiting' as const }));
  return { output, table, cases: ended.map(caseDocument) };
}

/** Runs one job for each case, and says how it goes. The command exits with 1 if a case failed. */
export async function runEach(
  connection: Connection,
  submission: Submission,
  flags: CohortFlags,
  io: CommandIo,
  {
    output,
    json,
    clientVersion,
    conversion,
    deidentify,
  }: {
    readonly output: string;
    readonly json: boolean;
    readonly clientVersion: string;
    readonly conversion: ConversionRequest | undefined;
    readonly deidentify: DeidentifyChoice;
  },
): Promise<CohortDocument> {
  const view = await openCohortView(io, json, flags.watch ?? false);
  try {
    const summary = await runCohort(connection, submission, {
      imaging,
      output,
      deidentify,
      atMost: flags['at-most'] ?? defaultAtMost,
      isForced: flags.force,
      keepsVersion: flags['keep-version'] ?? false,
      skipsIncomplete: flags['skip-incomplete'] ?? false,
      layout: flags.layout ?? 'cases',
      failsFast: flags['fail-fast'] ?? false,
      wait: flags.wait,
      killTimeout: flags['kill-timeout'],
      clientVersion,
      conversion,
      chooseSeries: seriesChoice(flags.series, io, { mayAsk: false }),
      watcher: view,
      reporter: view.reporter,
    });
    view.close(!json);
    if (summary.cases.some(({ status }) => status !== 'done')) io.exitCode = exitCodes.failed;
    if (!json) io.writeErr(`${summaryLines(summary).join('\n')}\n`);
    return documentOf(summary);
  } finally {
    view.close();
  }
}
