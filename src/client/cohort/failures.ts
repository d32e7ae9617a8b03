import { errorKinds, excerpt, exitCodes, servicePrefix } from '../../contract/index.js';
import { causeOf } from '../case/index.js';
import { type ClientError, HttpError, isTransient, JobFailed, NoRoom, WriteError } from '../errors.js';
import type { Reporter, TransferPhase } from '../reporter.js';

/** What to do once there is room on the disk. */
export const goOnLater = 'give the same command again: finished cases are kept';

/** The error for a result that cannot be written: what fetches it alone would not put it in its place. */
export function withoutRoom(directory: string, error: unknown): unknown {
  const cause = causeOf(error);
  if (cause instanceof NoRoom) return new NoRoom(cause.what, goOnLater);
  return cause instanceof WriteError ? new WriteError(directory, cause.cause, goOnLater) : error;
}

/** Whether the same would happen to every other case. */
export function concernsAllCases(error: unknown): boolean {
  const cause = causeOf(error);
  if (cause instanceof WriteError || cause instanceof NoRoom || isTransient(cause)) return true;
  const { notAuthorised } = exitCodes;
  return (
    cause instanceof HttpError &&
    (cause.exitCode === notAuthorised || cause.status === errorKinds.diskFull.status)
  );
}

/** Passes on what is told of a job, and remembers the last line that its app wrote: a failure is rarely explained elsewhere. */
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

/** Why a job has no result: what the server says, and for a program that failed what it wrote last. */
export function reasonOf(error: ClientError, lastLine: string): string {
  if (!(error instanceof JobFailed)) return error.message;
  const reason = String(error.details.reason);
  const isUnexplained = error.state === 'error' && lastLine !== '' && !reason.includes(lastLine);
  return isUnexplained ? `${reason}: ${lastLine}` : reason;
}

/** A reason that goes on, whose sentence may have ended. @param more what follows; empty if nothing does */
export const withMore = (reason: string, more: string): string =>
  more === '' ? reason : reason.replace(/\.$/, '') + more;
