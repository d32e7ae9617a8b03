import { type JobEnvelope, type Operation, someOf } from '../../contract/index.js';
import { app, type Connection } from '../connection/index.js';
import type { FoundFiles } from '../found-files.js';
import type { Outgoing } from '../outgoing.js';
import type { Reporter } from '../reporter.js';
import type { Destination } from '../result/index.js';
import type { Submission } from '../submission.js';
import { checkOperation, preflight, type SentFiles, sentFilesOf } from '../submit/index.js';
import { type Conversion, findInputs } from './imaging.js';
import type { JobOptions } from './job-options.js';
import { forgetFacts, keepNames } from './kept-facts.js';
import { BackgroundRecorder } from './recorder.js';
import { type Case, type Fetched, runCase, sendCase } from './run-case.js';

/** A job that the server has accepted, and what was sent to it. */
export type StartedJob = JobEnvelope & SentFiles;

/** A job that is done and whose result is on this machine. */
export type FinishedJob = {
  readonly job_id: string;
  readonly status: 'done';
  readonly app: string;
  readonly operation: Operation['segment'];
  /** What was converted, and what was not; null if nobody asked for it. */
  readonly conversion: Conversion | null;
} & SentFiles &
  Fetched;

/**
 * The one case of a command. Finds the files first, because a mistake in a path needs no server; then asks the server.
 * @param mayReplace whether results replace files of the same names: inputs among them are refused
 */
async function onlyCase(
  connection: Connection,
  submission: Submission,
  options: JobOptions,
  mayReplace: boolean,
): Promise<Case> {
  const { imaging, reporter, output, chooseSeries } = options;
  const place = { directory: output, mayReplace };
  const finding = { place, chooseSeries, reporter, signal: connection.signal };
  const describe = () => app(connection, submission.app);
  const found = await findInputs(imaging, submission, finding, describe).catch(async (error: unknown) => {
    await checkOperation(connection, submission);
    throw error;
  });
  reporter.waiting(`Asking ${connection.server} what it takes`);
  const terms = await preflight(connection, submission).finally(() => reporter.waiting(null));
  const { requiresDeidentified } = terms;
  const preparing = { ...options, requiresDeidentified, server: connection.server };
  const outgoing = (await imaging.prepare([found], preparing, reporter)).outgoing(found);
  if (outgoing) tellNames(found, outgoing, reporter);
  return { submission, found, terms, outgoing };
}

/** Says under which names files leave. */
function tellNames({ volumes }: FoundFiles, outgoing: Outgoing, reporter: Reporter): void {
  const units = volumes.flatMap(({ groups }) => groups.flat());
  const shown = units.map((unit) => `${unit.path} -> ${outgoing.nameOf(unit)}`);
  if (shown.length > 0) reporter.note(`Sent under neutral names: ${someOf(shown)}`);
}

/** Keeps the names that a person knows for commands that show the log of a job, or fetch its result, later. */
const keepOriginals = (
  { server }: Connection,
  { outgoing }: Case,
  { deidentify }: JobOptions,
  jobId: string,
): void => {
  if (outgoing) keepNames(deidentify.configDir, jobId, server, outgoing.originals);
};

const sentOf = ({ found, outgoing }: Case): SentFiles => sentFilesOf(outgoing?.renamed ?? found);

/**
 * Submits a job that nobody waits for.
 * @param onAccepted called as soon as it is accepted
 * @param tellAccepted called next, before its inputs are read for the record
 */
export async function startJob(
  connection: Connection,
  submission: Submission,
  options: JobOptions,
  { onAccepted, tellAccepted }: Pick<Running, 'onAccepted' | 'tellAccepted'>,
): Promise<StartedJob> {
  const work = await onlyCase(connection, submission, options, false);
  using recorder = new BackgroundRecorder(connection, work, options);
  const envelope = await sendCase(connection, work, options, { onAccepted });
  keepOriginals(connection, work, options, envelope.job_id);
  recorder.begins(envelope.job_id);
  await tellAccepted(envelope.job_id);
  await recorder.read();
  return { ...envelope, ...sentOf(work) };
}

/** Where the result of a job goes, and who is told about the job. */
interface Running {
  readonly destination: Destination;
  readonly onAccepted: (jobId: string) => void;
  /** Prints or notes that a job is accepted. */
  readonly tellAccepted: (jobId: string) => Promise<unknown>;
}

/** Runs one operation, as one job, from the files on this machine to the result on this machine. */
export async function runJob(
  connection: Connection,
  submission: Submission,
  options: JobOptions,
  { destination, onAccepted, tellAccepted }: Running,
): Promise<FinishedJob> {
  const { reporter } = options;
  const { app, operation } = submission;
  const mayReplace = 'taken' in destination && destination.taken === 'replace';
  const work = await onlyCase(connection, submission, options, mayReplace);
  using recorder = new BackgroundRecorder(connection, work, options);
  let conversion = null as Conversion | null;
  const { jobId, received } = await runCase(connection, work, options, {
    onAccepted,
    onRunning: async (id) => {
      keepOriginals(connection, work, options, id);
      recorder.begins(id);
      // Reported at once, even if the server's log does not say it.
      reporter.note(`Job ${id} is accepted: ${operation.command} on ${app}`);
      await tellAccepted(id);
    },
    receive: (fetch) => fetch(destination),
    record: async (id, directory, log) => {
      conversion = await recorder.write(id, directory, log);
    },
  });
  forgetFacts(options.deidentify.configDir, jobId);
  return {
    job_id: jobId,
    status: 'done',
    app,
    operation: operation.segment,
    conversion,
    ...received,
    ...sentOf(work),
  };
}
