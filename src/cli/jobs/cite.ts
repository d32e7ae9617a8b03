import { statSync } from 'node:fs';
import path from 'node:path';
import {
  type CaseRecord,
  devicesOf,
  readRecord,
  readSentCase,
  serverFacts,
} from '../../client/case/index.js';
import { app as askApp, job as askJob, type Connection } from '../../client/connection/index.js';
import { UsageError } from '../../client/errors.js';
import { bidsRecordEnding, recordName } from '../../client/output-names.js';
import type { Reporter } from '../../client/reporter.js';
import { commandOf, excerpt, quoteName, quotePath, referenceText, someOf } from '../../contract/index.js';
import { filesBelow } from '../../files/index.js';
import { formatPairs } from '../terminal/index.js';

/** What produced a result, as its record says. */
type Made = Pick<CaseRecord, 'app' | 'app_version' | 'operation' | 'checkpoints' | 'citation'> &
  Pick<CaseRecord, 'server_version' | 'client_version' | 'devices'> & { readonly display_name: string };

/** What produced the results of these jobs. */
interface Cited extends Made {
  readonly job_ids: readonly string[];
  /** A sentence for a methods section. Its reference numbers are indices into `citation`, counted from 1. */
  readonly sentence: string;
}

export interface CiteDocument {
  readonly cited: readonly Cited[];
}

/**
 * Reads what to cite from the records of results on this machine. `place` is a record, the directory of a result, or a directory
 * with many results below it.
 * @throws UsageError if there is no record
 */
export function citedAt(place: string): CiteDocument {
  const places = statSync(place).isDirectory()
    ? filesBelow(place, (directory) => path.basename(directory).startsWith('.'))
        .filter(({ name }) => name === recordName || name.endsWith(bidsRecordEnding))
        .map(({ parentPath, name }) => path.join(parentPath, name))
    : [place];
  const records = places.flatMap((file) => readRecord(path.dirname(file), path.basename(file)) ?? []);
  if (records.length === 0)
    throw new UsageError(
      `${quotePath(place)} has no record that can be read: name a ${recordName}, a directory with results, or a job`,
    );
  return documentOf(
    records.map((record) => ({
      jobId: record.job_id,
      made: {
        app: record.app,
        display_name: record.GeneratedBy[0]?.Description ?? record.app,
        app_version: record.app_version,
        operation: record.operation,
        checkpoints: record.checkpoints,
        citation: record.citation,
        server_version: record.server_version,
        client_version: record.client_version,
        devices: record.devices,
      },
    })),
  );
}

/**
 * Asks the server what to cite for a job. The references are the app's current ones; if the app has changed since the job ran, a
 * note says so.
 */
export async function citedJob(
  connection: Connection,
  jobId: string,
  { configDir, version }: { readonly configDir: string; readonly version: string },
  reporter: Reporter,
): Promise<CiteDocument> {
  const job = await askJob(connection, jobId);
  const name = job.app ?? '';
  const [view, server] = await Promise.all([
    askApp(connection, name).catch(() => null),
    serverFacts(connection),
  ]);
  const app = view?.available ? view : null;
  if (job.version && app?.version && app.version !== job.version)
    reporter.note(`${quoteName(name)} has changed since job ${jobId} ran; its references are those of now`);
  const made = {
    app: name,
    display_name: app?.display_name ?? name,
    app_version: job.version ?? null,
    operation: job.operation ?? '',
    checkpoints: readSentCase(configDir, jobId, connection.server)?.checkpoints ?? [],
    citation: app?.citation ?? [],
    server_version: server.version,
    client_version: version,
    devices: devicesOf(job, server),
  };
  return documentOf([{ jobId, made }]);
}

/** Merges jobs that ran the same programs on the same devices into one entry. */
function documentOf(jobs: readonly { readonly jobId: string; readonly made: Made }[]): CiteDocument {
  const entries = new Map<string, Cited & { job_ids: string[] }>();
  for (const { jobId, made } of jobs) {
    const key = JSON.stringify(made);
    const same = entries.get(key);
    if (same) same.job_ids.push(jobId);
    else entries.set(key, { ...made, job_ids: [jobId], sentence: sentenceOf(made) });
  }
  return { cited: [...entries.values()] };
}

function sentenceOf({ app, display_name, app_version, citation, ...made }: Made): string {
  const version = app_version && `version ${app_version.replace(/^sha256:/, '').slice(0, 12)}`;
  const about = [display_name === app ? null : app, version].filter(Boolean).join(', ');
  const numbers = citation.map((_, index) => index + 1).join(', ');
  const on = [...new Set(made.devices)].join(', ');
  const program = `remote-app ${made.server_version ?? made.client_version}`;
  return excerpt(
    `The results were computed with ${display_name}${about && ` (${about})`}${numbers && ` [${numbers}]`}, run by ${program}${on && ` on ${on}`}.`,
    2000,
  );
}

/** For each entry, its sentence, its references, and details of what ran. */
export const citeLines = ({ cited }: CiteDocument): string[] =>
  cited.flatMap((entry, at) => [
    ...(at > 0 ? [''] : []),
    entry.sentence,
    '',
    ...(entry.citation.length > 0
      ? entry.citation.map((each, index) => excerpt(`[${index + 1}] ${referenceText(each)}`, 2000))
      : ['The app names no reference.']),
    '',
    ...formatPairs([
      ['App', [entry.app, entry.app_version].filter(Boolean).join(', version ')],
      ['Operation', commandOf(entry.operation)],
      ['Checkpoints', entry.checkpoints.join(', ')],
      ['Server', entry.server_version && `remote-app ${entry.server_version}`],
      ['Client', `remote-app ${entry.client_version}`],
      ['GPUs', entry.devices.join(', ')],
      ['Jobs', someOf(entry.job_ids)],
    ]),
  ]);
