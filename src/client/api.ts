import type { AppList, AppView } from '../contract/app-manifest.js';
import type { JobList, JobView, KillReply } from '../contract/job.js';
import { appPath, jobPath, killPath, routes } from '../contract/routes.js';
import type { DeviceList, MemoryUse } from '../contract/system.js';
import type { Connection } from './connection.js';

/** Bounds a call as a whole, whatever ends the connection's other requests. */
function within(connection: Connection, seconds: number): AbortSignal {
  const limit = AbortSignal.timeout(seconds * 1000);
  return connection.signal ? AbortSignal.any([connection.signal, limit]) : limit;
}

/**
 * `GET /health` (spec.md, Health and system).
 * @param timeout seconds for the whole call
 */
export const health = (connection: Connection, timeout: number): Promise<{ status: string }> =>
  connection.json(routes.health, { signal: within(connection, timeout) });

/** `GET /available_devices`. */
export const devices = (connection: Connection): Promise<DeviceList> => connection.json(routes.devices);

/** `GET /ram`, in GB of 1024^3 bytes. */
export const ram = (connection: Connection): Promise<MemoryUse> => connection.json(routes.ram);

/** `GET /vram`, summed over the GPUs of these ids, in GB of 1024^3 bytes. */
export const vram = (connection: Connection, ids: readonly number[]): Promise<MemoryUse> =>
  connection.json(routes.vram, { query: `?${ids.map((id) => `devices=${id}`).join('&')}` });

/** `GET /repo_apps_list`: the identifiers of the apps on the allowlist. */
export async function apps(connection: Connection): Promise<readonly string[]> {
  const list = await connection.json<AppList>(routes.apps);
  return Array.isArray(list.apps) ? list.apps : [];
}

/** `GET /repo_apps/{id}`. */
export const app = (connection: Connection, id: string): Promise<AppView> => connection.json(appPath(id));

/** `GET /jobs/{id}`. */
export const job = (connection: Connection, id: string): Promise<JobView> => connection.json(jobPath(id));

/** `GET /jobs`, newest first. */
export const jobs = async (connection: Connection): Promise<JobList['jobs']> =>
  (await connection.json<JobList>(routes.jobs)).jobs;

/**
 * `POST /jobs/{id}/kill`; the answer comes when the job's processes are gone. It is not ended by what ends the
 * connection's other requests: a kill is what follows an interruption.
 * @param timeout seconds for the whole call
 */
export const kill = (connection: Connection, id: string, timeout: number): Promise<KillReply> =>
  connection.json(killPath(id), { method: 'POST', signal: AbortSignal.timeout(timeout * 1000) });
