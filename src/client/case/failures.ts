import { errorKinds, killErrors } from '../../contract/index.js';
import { ClientError, HttpError, isExpiredJob, isUnknownJob, JobFailed, JobForgotten } from '../errors.js';

/** The error under an error that says how to go on. */
export const causeOf = (error: unknown): unknown =>
  error instanceof ClientError && error.cause instanceof ClientError ? error.cause : error;

/** Whether a server answers that it takes no job now: it is full, or being drained. */
export function takesNoJobNow(error: unknown): boolean {
  const cause = causeOf(error);
  if (!(cause instanceof HttpError) || cause.isOfProxy) return false;
  return cause.status === errorKinds.busy.status || cause.status === errorKinds.draining.status;
}

/** Whether a server does not have a job that it accepted. */
export const isJobGone = (error: unknown): boolean =>
  error instanceof JobForgotten || isUnknownJob(causeOf(error)) || isExpiredJob(causeOf(error));

/** Whether a job was killed because its server was stopped. */
export const isKilledWithServer = (error: unknown): boolean =>
  error instanceof JobFailed && error.state === 'killed' && error.details.reason === killErrors.stop;
