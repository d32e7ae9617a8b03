import { errorKinds, excerpt, exitCodes, servicePrefix } from '../../contract/index.js';
import {
  ClientError,
  HttpError,
  isExpiredJob,
  isTransient,
  isUnknownJob,
  JobFailed,
  JobForgotten,
  WriteError,
} from '../errors.js';
import type { Reporter, TransferPhase } from '../reporter.js';

/** The error under an error that says how to go on. */
const causeOf = (error: unknown): unknown =>
  error instanceof ClientError && error.cause instanceof ClientError ? error.cause : error;

/** Whether a server answers that it takes no job now: it is full, or being drained. */
export function isBusy(error: unknown): boolean {
  const cause = causeOf(error);
  if (!(cause instanceof HttpError) || cause.isOfProxy) return false;
  return cause.status === errorKinds.busy.status || cause.status === errorKinds.draining.status;
}

/** Whether a server has lost a job. */
export const isLost = (error: unknown): boolean =>
  error instanceof JobForgotten || isUnknownJob(causeOf(error)) || isExpiredJob(causeOf(error));

/** Whether the same would happen to every other case. */
export function endsAll(error: unknown): boolean {
  const cause = causeOf(error);
  if (cause instanceof WriteError || isTransient(cause)) return true;
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
