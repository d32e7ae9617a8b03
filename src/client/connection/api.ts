import type { AppList } from '../../contract/app-manifest.js';
import { errorKinds } from '../../contract/errors.js';
import { parameters } from '../../contract/http.js';
import type { KillReply, RemovedJob } from '../../contract/job.js';
import { appPath, jobPath, killPath } from '../../contract/paths.js';
import { routes } from '../../contract/routes.js';
import type { DeviceList, DrainState, MemoryUse } from '../../contract/system.js';
import type { Usage } from '../../contract/usage.js';
import { HttpError } from '../errors.js';
import type { AppAnswer, JobAnswer, LimitsAnswer, RefreshAnswer } from './answer-schemas.js';
import * as answers from './answer-schemas.js';
import type { Connection } from './connection.js';
import { healthAnswer } from './health-answer.js';

/**
 * `GET /health` (spec.md, Health and system).
 * @param timeout seconds for the whole call
 */
export const health = (connection: Connection, timeout: number): Promise<{ status: 'ok' }> =>
  connection.json(routes.health.path, healthAnswer, { limit: timeout });

/**
 * `GET /available_devices`.
 * @param limit seconds for the whole call
 */
export const devices = async (connection: Connection, limit?: number): Promise<DeviceList> =>
  connection.json(routes.devices.path, answers.devicesAnswer, { limit });

/**
 * `GET /limits`, a route of ours: another server may answer 404.
 * @param limit seconds for the whole call
 */
export const limits = async (connection: Connection, limit?: number): Promise<LimitsAnswer> =>
  connection.json(routes.limits.path, answers.limitsAnswer, { limit });

/** `GET /ram`, in GB of 1024^3 bytes. */
export const ram = async (connection: Connection): Promise<MemoryUse> =>
  connection.json(routes.ram.path, answers.memoryAnswer);

/** `GET /vram`, summed over the GPUs of these ids, in GB of 1024^3 bytes. */
export const vram = async (connection: Connection, ids: readonly number[]): Promise<MemoryUse> =>
  connection.json(routes.vram.path, answers.memoryAnswer, {
    query: `?${ids.map((id) => `${parameters.devices.name}=${id}`).join('&')}`,
  });

/**
 * `GET /repo_apps_list`: the identifiers of the apps on the allowlist.
 * @param limit seconds for the whole call
 */
export const apps = async (connection: Connection, limit?: number): Promise<readonly string[]> =>
  (await appList(connection, limit)).apps;

/** The same, with those that are loaded at the moment. */
export const appList = async (connection: Connection, limit?: number): Promise<AppList> =>
  connection.json(routes.apps.path, answers.appsAnswer, { limit });

/**
 * `GET /repo_apps/{id}`.
 * @param limit seconds for the whole call
 */
export const app = async (connection: Connection, id: string, limit?: number): Promise<AppAnswer> =>
  connection.json(appPath(id), answers.appAnswer, { limit });

/** Asks the server to look for new commits of its repositories: a route of ours, which KonfAI's server lacks. */
export const refresh = async (connection: Connection): Promise<RefreshAnswer> =>
  connection.json(routes.refresh.path, answers.refreshAnswer, { method: routes.refresh.method });

/** What the server knows of its repositories. */
export const refreshed = async (connection: Connection): Promise<RefreshAnswer> =>
  connection.json(routes.refreshed.path, answers.refreshAnswer);

/**
 * `GET /jobs/{id}`.
 * @param limit seconds for the whole call
 * @param signal ends it, in place of that which ends the connection's other requests
 */
export const job = async (
  connection: Connection,
  id: string,
  limit?: number,
  signal?: AbortSignal,
): Promise<JobAnswer> => connection.json(jobPath(id), answers.jobAnswer(id), { limit, signal });

/** Which jobs are asked for. */
export interface JobsAsked {
  /** Whether the jobs of all owners, as an admin may. */
  readonly all?: boolean | undefined;
  /** Those of this tag alone. */
  readonly tag?: string | undefined;
}

/**
 * `GET /jobs`, newest first: a route of ours.
 * @throws HttpError that says so for a server without it
 */
export async function jobs(
  connection: Connection,
  { all = false, tag }: JobsAsked = {},
): Promise<readonly JobAnswer[]> {
  const asked = new URLSearchParams({
    ...(all ? { [parameters.all.name]: '1' } : {}),
    ...(tag === undefined ? {} : { [parameters.tag.name]: tag }),
  });
  const options = asked.size > 0 ? { query: `?${asked}` } : {};
  try {
    const list = (await connection.json(routes.jobs.path, answers.jobsAnswer, options)).jobs;
    // An earlier server does not know tags, and answers with all jobs.
    return tag === undefined ? list : list.filter((each) => each.tag === tag);
  } catch (error) {
    if (!(error instanceof HttpError) || error.isOfProxy || error.status !== errorKinds.notFound.status)
      throw error;
    const message = `${connection.server} has no list of jobs, as KonfAI's server has none: ask for each by its id`;
    throw new HttpError(error.status, message, null);
  }
}

/**
 * `GET /usage`, a route of ours.
 * @param since ISO 8601; undefined for all that is noted
 */
export const usage = async (connection: Connection, since?: string): Promise<Usage> => {
  const query =
    since === undefined ? {} : { query: `?${parameters.usedSince.name}=${encodeURIComponent(since)}` };
  return connection.json(routes.usage.path, answers.usageAnswer, query);
};

/**
 * The same of all owners, which only an admin may ask for.
 * @param limit seconds for the whole call
 */
export const usageOfAll = async (connection: Connection, limit: number): Promise<Usage> =>
  connection.json(routes.usage.path, answers.usageAnswer, {
    query: `?${parameters.all.name}=1`,
    limit,
  });

/**
 * `POST /jobs/{id}/kill`; the answer comes when the job's processes are gone. The signal that ends the connection's other
 * requests does not end this one, because an interruption is followed by a kill.
 * @param timeout seconds for the whole call
 */
export const kill = async (connection: Connection, id: string, timeout: number): Promise<KillReply> =>
  connection.json(killPath(id), answers.killAnswer(id), {
    method: routes.kill.method,
    // Node takes whole milliseconds only.
    signal: AbortSignal.timeout(Math.ceil(timeout * 1000)),
  });

/** `DELETE /jobs/{id}`, of a job that has ended: a route of ours. @throws HttpError that says so for a server without it */
export async function remove(connection: Connection, id: string): Promise<RemovedJob> {
  try {
    const answer = answers.removedAnswer(id);
    return await connection.json(jobPath(id), answer, { method: routes.remove.method });
  } catch (error) {
    if (!(error instanceof HttpError && error.status === errorKinds.methodNotAllowed.status)) throw error;
    const message = `${connection.server} removes no job when it is asked to, as KonfAI's server: it does so some time after the job's end`;
    throw new HttpError(error.status, message, null);
  }
}

/** A route of `/drain`, which is ours. @throws HttpError that says so for a server without it */
async function askDrain(connection: Connection, method: 'GET' | 'POST' | 'DELETE'): Promise<DrainState> {
  try {
    return await connection.json(routes.drain.path, answers.drainAnswer, { method });
  } catch (error) {
    if (!(error instanceof HttpError && error.status === errorKinds.notFound.status)) throw error;
    const message = `${connection.server} cannot be drained: it is of an earlier version, or another server`;
    throw new HttpError(error.status, message, null);
  }
}

/** `GET /drain`: for an admin. */
export const drainState = (connection: Connection): Promise<DrainState> =>
  askDrain(connection, routes.draining.method);

/** `POST /drain`, or `DELETE /drain` to accept new jobs again: for an admin. */
export const setDraining = (connection: Connection, isDraining: boolean): Promise<DrainState> =>
  askDrain(connection, isDraining ? routes.drain.method : routes.undrain.method);
