import { counted, errorKinds, formatBytes } from '../../contract/index.js';
import type { EndedJob, JobFacts, ServerEvents } from '../../server/events.js';
import { formatDuration } from '../terminal/index.js';
import type { LogLevel } from './flags.js';
import type { ServerLog } from './server-log.js';

/**
 * Limits the number of log lines per interval, and counts the rest.
 * @param sayRefused called at the end of an interval in which lines were dropped
 * @returns a function that says whether the next line may be logged
 */
function floodGate(max: number, interval: number, sayRefused: (count: number) => void): () => boolean {
  let lines = 0;
  const end = () => {
    if (lines > max) sayRefused(lines - max);
    lines = 0;
  };
  return () => {
    if (lines === 0) setTimeout(end, interval).unref();
    lines += 1;
    return lines <= max;
  };
}

/** Limit on lines about refused requests, per ten seconds, so that a persistent client cannot fill the disk with logs. */
const refusals = { max: 20, interval: 10_000 };

const of = (owner: string | null): string => (owner === null ? '' : ` of ${owner}`);

function placeOf({ gpus }: Pick<EndedJob, 'gpus'>): string {
  return gpus.length === 0 ? 'the CPU' : `GPU ${gpus.join(', ')}`;
}

function describeEnd({ state, error, isRefused, seconds, bytes }: EndedJob): string {
  const when = seconds === null ? 'before it ran' : `after ${formatDuration(seconds, true)}`;
  if (state === 'done') return `done ${when}${bytes === null ? '' : `, result ${formatBytes(bytes)}`}`;
  // The message of an app may contain file names, and these may identify patients.
  const why = isRefused ? 'its app refused the input' : error;
  return `${state === 'killed' ? 'killed' : 'failed'} ${when}: ${why}`;
}

/** Logs each step of a job and each refused request. */
export function logEvents(events: ServerEvents, log: Pick<ServerLog, 'note'>): void {
  const about = (level: LogLevel, event: string, job: JobFacts, line: string, more: object = {}) => {
    const { id, app, operation, owner } = job;
    const fields = { event, job_id: id, app, operation, owner, ...more };
    log.note(level, `Job ${id}${of(owner)}: ${line}`, fields);
  };
  events.on('accepted', (job) => {
    const { app, operation, bytes } = job;
    about('info', 'accepted', job, `accepted, ${operation} on ${app}, ${formatBytes(bytes)}`, { bytes });
  });
  events.on('waiting', (job) => {
    const { for: what, position } = job;
    const line = `waits for ${what}, position ${position} in the queue`;
    about('info', 'waiting', job, line, { waiting_for: what, queue_position: position });
  });
  events.on('started', (job) => {
    const { gpus, waited } = job;
    const line = `starts on ${placeOf(job)}, ${formatDuration(waited, true)} after it came`;
    about('info', 'started', job, line, { gpus, waited_seconds: waited });
  });
  events.on('ended', (job) => {
    const { state: status, isRefused, seconds, gpus, bytes } = job;
    const error = isRefused ? null : job.error;
    const more = { status, error, refused: isRefused, gpus, seconds, bytes };
    about('info', 'ended', job, describeEnd(job), more);
  });
  events.on('removed', (job) => {
    if (job.cause !== 'fetched') about('debug', 'removed', job, 'removed with its files');
    else about('info', 'removed', job, 'removed before its time: its result was fetched');
  });

  // Logged at the debug level, because one job may have thousands of uploads.
  events.on('uploaded', ({ owner, bytes }) =>
    log.note('debug', `An upload${of(owner)} is complete: ${formatBytes(bytes)}`, {
      event: 'uploaded',
      owner,
      bytes,
    }),
  );

  events.on('evicted', ({ owner, id, bytes, requester }) => {
    const what = id === null ? 'An upload' : `The output left by job ${id}`;
    const line = `${what}${of(owner)} is removed, ${formatBytes(bytes)}: the disk is almost full`;
    log.note('info', line, { event: 'evicted', owner, job_id: id, bytes, for: requester });
  });

  events.on('apps', ({ added, removed }) => {
    const fields = { event: 'apps', added, removed };
    if (added.length > 0) log.note('info', `Served from now on: ${added.join(', ')}`, fields);
    if (removed.length > 0) log.note('info', `No longer served: ${removed.join(', ')}`, fields);
  });

  events.on('drained', ({ isDraining, active }) => {
    const jobs = `${counted(active, 'active job')} ${active === 1 ? 'continues' : 'continue'}`;
    const line = isDraining ? `New jobs are no longer accepted; ${jobs}` : 'New jobs are accepted again';
    log.note('info', line, { event: 'drained', draining: isDraining, active });
  });

  events.on('gpusDrained', ({ gpus, isDrained }) => {
    const ids = `GPU ${gpus.join(', ')}`;
    const line = isDrained ? `New jobs no longer get ${ids}` : `Jobs get ${ids} again`;
    log.note('info', line, { event: 'drained', draining: isDrained, gpus });
  });

  events.on('fault', ({ what, fault }) => {
    const line = fault ?? `The fault of the ${what} is gone: jobs start again`;
    log.note('warn', line, { event: 'fault', what, fault });
  });

  events.on('tokensMended', ({ tokens }) =>
    log.note('info', `The token file can be used again: ${counted(tokens, 'token')}`, {
      event: 'tokens',
      tokens,
    }),
  );

  const admits = floodGate(refusals.max, refusals.interval, (count) =>
    log.note('warn', `${count} more requests were refused in ${refusals.interval / 1000} s`, {
      event: 'refused',
      count,
    }),
  );
  events.on('refused', ({ detail, ...refused }) => {
    const { method, path, status, error, from } = refused;
    const line = `Refused ${method} ${path} from ${from}: ${status}, ${errorKinds[error].means}`;
    const fields = { event: 'refused', ...refused };
    if (admits()) log.note('info', line, fields);
    // The detail may name the client's files, so it is logged only at the debug level.
    log.note('debug', `The client was told: ${detail}`, { ...fields, detail });
  });
}
