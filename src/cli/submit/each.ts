import path from 'node:path';
import type { JobOptions } from '../../client/case/index.js';
import { type CaseStatus, type CohortSummary, isOver, runCohort } from '../../client/cohort/index.js';
import type { Connection } from '../../client/connection/index.js';
import { UsageError } from '../../client/errors.js';
import type { Submission } from '../../client/submission.js';
import { counted, defaultOutput, exitCodes, oneLine, quotePath, someOf } from '../../contract/index.js';
import { imaging } from '../../imaging/index.js';
import { isToStdout } from '../jobs/index.js';
import type { CommandIo } from '../terminal/index.js';
import { seriesChoice } from './choose-series.js';
import { type CaseDocument, caseDocument, openCohortView } from './cohort-view.js';
import { conversionOf, type ParsedSubmit } from './submit-flags.js';

/** What `--each --json` prints. */
export interface EachDocument {
  readonly output: string;
  /** The path of `cases.csv`. */
  readonly table: string;
  readonly cases: readonly CaseDocument[];
}

const defaultMaxJobs = 4;

/** The directory that the results go to. @throws UsageError for stdout */
export function outputOfEach(flags: Pick<ParsedSubmit['flags'], 'output' | 'force'>): string {
  if (isToStdout(flags)) throw new UsageError('With --each there are many results: name a directory with -o');
  if (flags.output === '') throw new UsageError('--output is empty; name a directory');
  return path.resolve(flags.output ?? defaultOutput);
}

/** The final summary: counts, failures, and the path of the table. */
function summaryLines({ cases, table, orphaned, notes }: CohortSummary): string[] {
  const of = (status: CaseStatus) => cases.filter((each) => each.status === status);
  const [done, failed] = [of('done'), of('failed')];
  const edited = cases.filter((each) => each.edited.length > 0);
  const before = done.filter(({ isNew }) => !isNew).length;
  const outOfMemory = failed.filter(({ kind }) => kind === 'out-of-memory').length;
  const remaining = cases.length - done.length - failed.length;
  const counts = [
    `${done.length} done${before > 0 ? ` (${before} of them before)` : ''}`,
    ...(failed.length > 0
      ? [`${failed.length} failed${outOfMemory > 0 ? `, ${outOfMemory} of them out of memory` : ''}`]
      : []),
    ...(remaining > 0 ? [`${remaining} not computed`] : []),
  ];
  return [
    `${counted(cases.length, 'case')}: ${counts.join(', ')}`,
    ...failed.map(({ name, reason }) => oneLine(`  ${name}: ${reason ?? 'no reason given'}`)),
    ...edited.map((each) => oneLine(`  ${each.name}: changed by a person: ${each.edited.join(', ')}`)),
    ...(orphaned.length > 0
      ? [oneLine(`The table marks results whose input was not found: ${someOf(orphaned)}`)]
      : []),
    ...notes.map((note) => oneLine(note)),
    `The table is ${quotePath(table)}`,
  ];
}

function documentOf({ output, table, cases }: CohortSummary): EachDocument {
  const ended = cases.map((each) => (isOver(each) ? each : { ...each, status: 'waiting' as const }));
  return { output, table, cases: ended.map(caseDocument) };
}

/** Runs one job for each case, and reports progress. The command exits with 1 unless every case is done. */
export async function runEach(
  connection: Connection,
  submission: Submission,
  flags: ParsedSubmit['flags'],
  io: CommandIo,
  json: boolean,
  about: Pick<JobOptions, 'output' | 'clientVersion' | 'deidentify'>,
): Promise<EachDocument> {
  const view = await openCohortView(io, json, flags.watch ?? false);
  try {
    const summary = await runCohort(connection, submission, {
      ...about,
      imaging,
      maxJobs: flags['at-most'] ?? defaultMaxJobs,
      isForced: flags.force,
      keepsVersion: flags['keep-version'] ?? false,
      skipsIncomplete: flags['skip-incomplete'] ?? false,
      layout: flags.layout ?? 'cases',
      failsFast: flags['fail-fast'] ?? false,
      wait: flags.wait,
      killTimeout: flags['kill-timeout'],
      conversion: conversionOf(flags),
      chooseSeries: seriesChoice(flags.series, io, { mayAsk: false }),
      watcher: view,
      reporter: view.reporter,
    });
    view.close(!json);
    if (summary.cases.some(({ status }) => status !== 'done')) io.exitCode = exitCodes.failed;
    const lines = json ? summary.notes.map((note) => oneLine(note)) : summaryLines(summary);
    io.writeErr(lines.map((line) => `${line}\n`).join(''));
    return documentOf(summary);
  } finally {
    view.close();
  }
}
