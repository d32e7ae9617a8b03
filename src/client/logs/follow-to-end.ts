import { setTimeout as delay } from 'node:timers/promises';
import { acceptance, killErrors, servicePrefix, startPrefix } from '../../contract/index.js';
import { monotonicTime } from '../../files/index.js';
import { askFailure, type Connection } from '../connection/index.js';
import { isUnknownJob, JobFailed, JobForgotten, withResumeHint } from '../errors.js';
import { type OriginalNames, withOriginals } from '../outgoing.js';
import type { Reporter } from '../reporter.js';
import { FollowedLog } from './keep-log.js';
import { followLog } from './log-stream.js';
import type { LogEvent } from './stream-parser.js';

/** Milliseconds of silence after which a replay counts as over, so that later lines are new. */
const quiet = 300;

/**
 * The last lines of a log and all that follow, from a server that does not support `tail`, does not number lines and replays the
 * whole log without a pause. Numbered lines are passed on unchanged, because their server has already skipped the others.
 */
async function* lastLines(events: AsyncIterator<LogEvent>, count: number): AsyncGenerator<LogEvent> {
  const kept: LogEvent[] = [];
  let isReplay = true;
  let next = events.next();
  let hasBegun = false;
  try {
    for (;;) {
      const timer = new AbortController();
      const untilQuiet = isReplay && hasBegun ? [delay(quiet, null, { signal: timer.signal })] : [];
      const result = await Promise.race([next, ...untilQuiet.map((each) => each.catch(() => null))]);
      timer.abort();
      if (result === null) {
        isReplay = false;
        yield* kept.splice(0);
        continue;
      }
      if (result.done) return;
      hasBegun = true;
      const event = result.value;
      next = events.next();
      // What follows is awaited in the next turn, if there is one.
      next.catch(() => {});
      if (event.kind !== 'line' || event.id !== null) isReplay = false;
      if (!isReplay) {
        yield* kept.splice(0);
        yield event;
      } else if (kept.push(event) > count) kept.shift();
    }
  } finally {
    // Not awaited: the stream may be silent, and it is closed with the connection.
    events.return?.().catch(() => {});
  }
}

/** Milliseconds without a new line after which the terminal shows that the command is still waiting for the job. */
const silence = 2000;

/** The errors of killed jobs. */
const errorsOfKilled: readonly string[] = Object.values(killErrors);

/** Details for the error of a failed job, from the server. If the server has been stopped, the message has to suffice. */
async function failureOf(connection: Connection, jobId: string, message: string): Promise<JobFailed> {
  const isKilled = errorsOfKilled.includes(message);
  return (
    (await askFailure(connection, jobId)) ?? new JobFailed(jobId, isKilled ? 'killed' : 'error', message)
  );
}

/** The same failure with the original file names. */
const translated = (
  { jobId, state, details, facts }: JobFailed,
  translate: (text: string) => string,
): JobFailed => new JobFailed(jobId, state, translate(String(details.reason)), facts);

/** The note about lines that the server did not send, as the numbers of the lines around them show. */
function missing(before: number, behind: number): string {
  const [first, last] = [before + 1, behind - 1];
  const which = first === last ? `Line ${first} of the log is` : `Lines ${first} to ${last} of the log are`;
  return `${which} missing: the server did not send ${first === last ? 'it' : 'them'}`;
}

interface FollowToEndOptions {
  readonly reporter: Reporter;
  /** Lines to skip. */
  readonly since?: number | undefined;
  /** Alternatively, the number of last lines to begin with. */
  readonly tail?: number | undefined;
  /** Whether to keep trying if the first connection fails, because the job is known to exist. */
  readonly persistent?: boolean;
  /** Whether to continue reading when the reader of the output is gone. */
  readonly readOn?: boolean;
  /** Whether the command has already reported that the job is accepted, as the first line of the log does. */
  readonly isAnnounced?: boolean;
  /** Stores the lines if the server does not number them, because they cannot be requested again. */
  readonly followed?: FollowedLog | undefined;
  /** Replaces the neutral names in a line by the original file names. */
  readonly translate?: ((text: string) => string) | undefined;
}

/**
 * Follows a job's log to its end.
 * @returns the number of lines; null if the reader of the output is gone
 * @throws JobFailed for a job that failed or was killed; GaveUp if the server is unreachable for too long
 */
export async function followToEnd(
  connection: Connection,
  jobId: string,
  options: FollowToEndOptions,
): Promise<number | null> {
  const { reporter, translate = (text) => text } = options;
  const announced = options.isAnnounced ? servicePrefix + acceptance(jobId) : null;
  const forJob = `Waiting for job ${jobId}`;
  let lines = 0;
  let pending: string | null = null;
  const waitFor = (what: string | null) => {
    pending = what;
    reporter.waiting(what);
  };
  const patience = connection.patience({
    note: (text) => reporter.note(text),
    // After an outage, the command waits for the job again.
    waiting: (outage) => reporter.waiting(outage ?? pending),
  });
  waitFor(forJob);
  let isRunning = false;
  /**
   * Notes when the job starts. Only the command that created the job knows this: for any other reader of the log, the job started
   * some time ago.
   */
  const starts = (line: string) => {
    if (isRunning || !options.isAnnounced) return;
    isRunning = !line.startsWith(servicePrefix) || line.startsWith(servicePrefix + startPrefix);
    if (!isRunning) return;
    reporter.running(true);
  };
  let lastAt = monotonicTime();
  const watch = setInterval(() => {
    if (monotonicTime() - lastAt > silence) reporter.silent(forJob);
  }, silence / 2);
  try {
    const { since, tail, persistent } = options;
    const events = followLog(connection, jobId, { since, tail, persistent, patience });
    let number = since ?? 0;
    /** Whether the expected number is known: with `tail`, the first line may have any number. */
    let isFromStart = tail === undefined;
    for await (const read of tail === undefined ? events : lastLines(events, tail)) {
      if (read.kind === 'error')
        throw translated(await failureOf(connection, jobId, read.message), translate);
      if (read.kind === 'done') break;
      const event = { ...read, line: translate(read.line) };
      lastAt = monotonicTime();
      lines += 1;
      if (event.id !== null && isFromStart && event.id > number + 1) reporter.note(missing(number, event.id));
      isFromStart = true;
      number = event.id ?? number + 1;
      if (event.id === null) options.followed?.push(event.line, event.isRedraw);
      if (announced !== null && event.line.startsWith(announced)) continue;
      starts(event.line);
      // The service's own lines are about the queue. A redrawn one states the job's place in it, and the app's first line ends
      // the wait.
      if (!event.line.startsWith(servicePrefix)) waitFor(null);
      else waitFor(event.isRedraw ? event.line.slice(servicePrefix.length) : forJob);
      if (!(await reporter.line(event.line, event.isRedraw, number)) && !options.readOn) return null;
    }
    return lines;
  } catch (error) {
    const isKnown = lines > 0 || options.persistent;
    if (isKnown && isUnknownJob(error)) throw new JobForgotten(jobId, connection.server, error);
    throw connection.isMet ? withResumeHint(connection, jobId, error, { isKnown }) : error;
  } finally {
    clearInterval(watch);
    reporter.running(false);
    await reporter.endLog();
    waitFor(null);
  }
}

/**
 * Follows the log of a job from this command or an earlier one until the job ends. @throws JobFailed for a job without a result
 */
export async function followSentJob(
  connection: Connection,
  jobId: string,
  originals: OriginalNames,
  reporter: Reporter,
): Promise<FollowedLog> {
  const followed = new FollowedLog();
  const translate = (text: string) => withOriginals(text, originals);
  const how = { persistent: true, readOn: true, isAnnounced: true, followed, translate };
  await followToEnd(connection, jobId, { reporter, ...how });
  return followed;
}
