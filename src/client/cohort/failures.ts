import {
  counted,
  errorKinds,
  excerpt,
  exitCodes,
  quoteName,
  servicePrefix,
  someOf,
} from '../../contract/index.js';
import { type CaseRecord, type Computation, digestOf, keyOf, type RecordedInput } from '../case/index.js';
import { ClientError, HttpError, isTransient, JobFailed, NoRoom, UsageError, WriteError } from '../errors.js';
import type { Reporter, TransferPhase } from '../reporter.js';
import { shortVersion } from './table.js';

/** The original error, below the one that adds how to continue. */
export const causeOf = (error: unknown): unknown =>
  error instanceof ClientError && error.cause instanceof ClientError ? error.cause : error;

/** Whether every other case would fail in the same way. */
export function concernsAllCases(error: unknown): boolean {
  const cause = causeOf(error);
  if (cause instanceof WriteError || cause instanceof NoRoom || isTransient(cause)) return true;
  const { notAuthorised } = exitCodes;
  return (
    cause instanceof HttpError &&
    (cause.exitCode === notAuthorised || cause.status === errorKinds.diskFull.status)
  );
}

/** Passes all reports about a job on, and remembers the last line of its app, because a failure is rarely explained elsewhere. */
export class LastLine implements Reporter {
  text = '';

  constructor(private readonly next: Reporter) {}

  line(text: string, isRedraw: boolean, number: number): Promise<boolean> {
    if (!text.startsWith(servicePrefix) && text.trim() !== '') this.text = excerpt(text, 200);
    return this.next.line(text, isRedraw, number);
  }

  endLog = (): Promise<boolean> => this.next.endLog();
  note = (text: string): void => this.next.note(text);
  waiting = (what: string | null, isNews?: boolean): void => this.next.waiting(what, isNews);
  running = (isRunning: boolean): void => this.next.running(isRunning);
  silent = (what: string): void => this.next.silent(what);
  progress = (phase: TransferPhase, done: number, total: number): void =>
    this.next.progress(phase, done, total);
}

/** Why a job has no result: what the server says and, for a failed program, its last line. */
export function reasonOf(error: ClientError, lastLine: string): string {
  if (!(error instanceof JobFailed)) return error.message;
  const reason = String(error.details.reason);
  const isUnexplained = error.state === 'error' && lastLine !== '' && !reason.includes(lastLine);
  return isUnexplained ? `${reason}: ${lastLine}` : reason;
}

/** Appends more text to a reason, whose sentence may have ended. @param more the text to append; empty for none */
export const withMore = (reason: string, more: string): string =>
  more === '' ? reason : reason.replace(/\.$/, '') + more;

/**
 * The continuation of a sentence about a failed case: what to know about the result of an earlier command.
 * @param record of that result; null if there is none
 * @param inputs the inputs in their current state; undefined if they were not read
 */
export function aboutEarlier(
  record: CaseRecord | null,
  computation: Computation,
  inputs: readonly RecordedInput[] | undefined,
): string {
  if (!record) return '';
  if (inputs === undefined) return '; the existing result was made from an earlier state of its input';
  const digest = digestOf(inputs);
  if (digest !== digestOf(record.inputs)) return '; the existing result was made from an earlier input';
  const isOther = record.key !== keyOf(computation, digest);
  return isOther ? '; the existing result was made with other options or another version' : '';
}

/** The error for a result that exists, but does not count. */
export class VersionUnknown extends ClientError {
  constructor() {
    super(
      'The app changed while the job was running; the next run computes this case again',
      exitCodes.failed,
    );
  }
}

/**
 * The error for results from another version of the app.
 * @param now its current version
 * @param earlier the other versions that made results; empty if the app has only changed while jobs ran
 */
export function upgraded(app: string, now: string, earlier: readonly string[]): UsageError {
  const { length: count } = earlier;
  const versions = [...new Set(earlier)].map(shortVersion);
  const upgrade = `The app ${quoteName(app)} is version ${shortVersion(now)} now`;
  if (count === 0)
    return new UsageError(
      `${upgrade}, and changed during this run: run the command again to use this version`,
    );
  return new UsageError(
    `${upgrade}, and ${counted(count, 'result')} here ${count === 1 ? 'is' : 'are'} of ` +
      `version ${someOf(versions)}: give --force to compute the old cases again, or --keep-version to keep them and compute the others`,
  );
}
