import { quotePath } from '../../contract/quote.js';
import { UsageError } from '../errors.js';

/**
 * Identifiers become one part of a request's path. `.` and `..` would be taken out of it on the way, and the request,
 * with its token and its volumes, would go to another path.
 */

/** Ours are of the form of `jobIdPattern` (contract/job.ts); another server's may be UUIDs. */
export const pathJobId = /^[A-Za-z0-9_-]{1,64}$/;

/** Something that a path can carry: not empty, not `.` or `..`, and no half of a character. */
export const appIdPattern = /^(?!\.{1,2}$)\P{Cs}{1,4096}$/su;

/** @throws UsageError for what no job has as its id */
export function checkJobId(id: string): string {
  if (pathJobId.test(id)) return id;
  throw new UsageError(`${quotePath(id)} is no id of a job; 'remote-app jobs' lists them`);
}

/** @throws UsageError for what no app has as its identifier */
export function checkAppId(id: string): string {
  if (appIdPattern.test(id)) return id;
  throw new UsageError(`${quotePath(id)} is no identifier of an app; 'remote-app apps' lists them`);
}
