import type { Connection } from '../../client/connection/index.js';
import { UsageError } from '../../client/errors.js';
import type { Reporter } from '../../client/reporter.js';
import type {
  Destination,
  OutputDirectory,
  SavedArchive,
  StreamedArchive,
} from '../../client/result/index.js';
import { defaultOutput, type JobState } from '../../contract/index.js';
import type { CommandIo } from '../terminal/index.js';
import { type Kept, keptOf, tellKept } from './kept.js';

/** The flags that say where a result goes. */
interface OutputFlags {
  readonly output?: string | undefined;
  readonly force: boolean;
  readonly 'no-zip'?: boolean | undefined;
}

/** The value of `--output` that means stdout. */
const toStdout = '-';

/** Whether the zip goes to stdout, so that nothing else may be printed there. */
export const isToStdout = ({ output }: OutputFlags): boolean => output === toStdout;

/** The directory that the flags name. The default directory is numbered if it has files. */
export function outputDirectory({ output, force, 'no-zip': withoutArchive }: OutputFlags): OutputDirectory {
  if (output === '') throw new UsageError('--output is empty; name a directory');
  const taken = force ? 'replace' : output === undefined ? 'number' : 'refuse';
  return { directory: output ?? defaultOutput, taken, withoutArchive };
}

/**
 * Decides where a result goes. This is checked before anything is sent, so that no job runs for a result that cannot be saved.
 * @throws UsageError if stdout would get both a zip and a JSON document, or is a terminal; and for a directory that has files
 *   or cannot be written
 */
export async function readDestination(
  flags: OutputFlags,
  io: CommandIo,
  json: boolean,
): Promise<Destination> {
  if (isToStdout(flags)) {
    if (flags['no-zip']) throw new UsageError('-o - writes the zip that --no-zip leaves out; choose one');
    if (json) throw new UsageError('-o - and --json both write to stdout; choose one');
    if (io.stdout.isTTY) {
      throw new UsageError(
        'A zip cannot be shown on a terminal; name a directory with -o, or redirect stdout',
      );
    }
    return { stream: io.outStream() };
  }
  const output = outputDirectory(flags);
  const { checkOutput, foreseeOutput } = await import('../../client/result/index.js');
  if (output.taken !== 'number') checkOutput(output.directory);
  const place = foreseeOutput(output);
  if (output.taken === 'number') checkOutput(place);
  return output;
}

interface FetchFlags extends OutputFlags {
  /** Seconds. */
  readonly wait: number;
  readonly 'no-wait': boolean;
  readonly partial: boolean;
}

export type ResultSummary = {
  readonly job_id: string;
  /** Null if the server does not say. */
  readonly status: JobState | null;
} & (SavedArchive | StreamedArchive) &
  Kept;

/** Saves a job's result in a directory and extracts it, or writes the zip to stdout. */
export async function fetchJobResult(
  connection: Connection,
  jobId: string,
  flags: FetchFlags,
  io: CommandIo,
  json: boolean,
  reporter: Reporter,
  configDir: string,
): Promise<ResultSummary> {
  const destination = await readDestination(flags, io, json);
  const { wait, 'no-wait': isImpatient, partial: isPartial } = flags;
  const [{ readNames, readSentCase, receiveResult }, { imaging }] = await Promise.all([
    import('../../client/case/index.js'),
    import('../../imaging/index.js'),
  ]);
  const originals = readNames(configDir, jobId, connection.server);
  const sent = async () => (isPartial ? null : readSentCase(configDir, jobId, connection.server));
  const options = { wait, isImpatient, isPartial, reporter };
  const { conversion: _none, ...fetched } = await receiveResult(connection, jobId, destination, options, {
    imaging,
    originals,
    sent,
  });
  const view = await tellKept(connection, jobId, reporter, false);
  if (isPartial && view && view.status !== 'done') {
    reporter.note(`Job ${jobId} did not finish (${view.status}): its output may be incomplete`);
  }
  return { job_id: jobId, status: view?.status ?? null, ...fetched, ...keptOf(view) };
}
