import { quotePath } from '../../contract/index.js';
import { UsageError } from '../errors.js';
import { nextCommand } from '../next-command.js';

/**
 * An identifier becomes one part of a request's path. `.` and `..` would be resolved on the way, so the request, with its
 * token and its volumes, would go to another path.
 */

/**
 * remote-app's ids match `jobIdPattern` (contract/job.ts); another server's may be UUIDs. No id begins with a dash: `jobs -q`
 * prints ids for use on command lines, where a dash would start a flag.
 */
export const pathJobId = /^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$/;

/** Texts that can be a part of a path: not empty, not `.` or `..`, and without unpaired surrogates. */
export const appIdPattern = /^(?!\.{1,2}$)\P{Cs}{1,4096}$/su;

/** @throws UsageError for a text that cannot be a job's id */
export function checkJobId(id: string): string {
  if (pathJobId.test(id)) return id;
  throw new UsageError(`${quotePath(id)} is not the id of a job; '${nextCommand('jobs')}' lists them`);
}

/** @throws UsageError for a text that cannot be an app's identifier */
export function checkAppId(id: string): string {
  if (appIdPattern.test(id)) return id;
  throw new UsageError(
    `${quotePath(id)} is not the identifier of an app; '${nextCommand('apps')}' lists them`,
  );
}
