import {
  type AppList,
  appPath,
  type DeviceJob,
  type DeviceList,
  type DrainState,
  errorKinds,
  jobPath,
  type KillReply,
  killPath,
  type MemoryUse,
  maxListed,
  type OutOfUse,
  parameters,
  type RemovedJob,
  refusedResult,
  resultPath,
  routes,
  type Usage,
} from '../../contract/index.js';
import { HttpError, JobFailed } from '../errors.js';
import type { Submission } from '../submission.js';
import type { AppAnswer, JobAnswer, LimitsAnswer, RefreshAnswer } from './answer-schemas.js';
import type { Answer } from './answers.js';
import type { Call, Connection } from './connection.js';
import { fetchLeft } from './job-words.js';
import { bodyOf, discard, withFlags } from './reply.js';

// Everywhere below, `limit` and `timeout` are the seconds for the whole call.

type Answers = typeof import('./answer-schemas.js');

/** Sends a request, and checks the answer against its schema. The schemas are loaded on the first request. */
const ask = async <T>(
  connection: Connection,
  path: string,
  answer: (answers: Answers) => Answer<T>,
  call: Call = {},
): Promise<T> => connection.json(path, answer(await import('./answer-schemas.js')), call);

/**
 * The schema of the answer to a submission. Loaded before the submission is sent, since nothing may be loaded afterwards.
 */
export const submissionAnswer = async (): Promise<Answers['envelopeAnswer']> =>
  (await import('./answer-schemas.js')).envelopeAnswer;

/** `GET /health` (docs/http.md, Health and system). */
export const health = (
  connection: Connection,
  timeout: number,
): Promise<{ status: 'ok'; faults: readonly string[] }> =>
  ask(connection, routes.health.path, (answers) => answers.healthAnswer, { limit: timeout });

/** `GET /available_devices`. */
export const devices = async (connection: Connection, limit?: number): Promise<DeviceList> =>
  ask(connection, routes.devices.path, (answers) => answers.devicesAnswer, { limit });

/**
 * `GET /limits`, which only remote-app has: another server may answer 404.
 * @param submission the planned submission
 * @throws HttpError 422 if the submission's app needs more than the server can provide
 */
export const limits = async (
  connection: Connection,
  limit?: number,
  submission?: Pick<Submission, 'app' | 'operation' | 'fields'>,
): Promise<LimitsAnswer> => {
  const asked = new URLSearchParams();
  if (submission) {
    const { app, operation, fields } = submission;
    asked.set(parameters.app.name, app);
    asked.set(parameters.operation.name, operation.segment);
    for (const { name } of [parameters.gpu, parameters.cpu])
      if (fields[name] !== undefined) asked.set(name, fields[name]);
  }
  const query = submission && `?${asked}`;
  return ask(connection, routes.limits.path, (answers) => answers.limitsAnswer, { limit, query });
};

/** `GET /ram`, in GB of 1024^3 bytes. */
const ram = async (connection: Connection): Promise<MemoryUse> =>
  ask(connection, routes.ram.path, (answers) => answers.memoryAnswer);

/** `GET /vram` of one GPU, in GB of 1024^3 bytes. */
const vram = async (connection: Connection, id: number): Promise<MemoryUse> =>
  ask(connection, routes.vram.path, (answers) => answers.memoryAnswer, { query: `?devices=${id}` });

/** `GET /repo_apps_list`: the identifiers of the apps on the allowlist. */
export const apps = async (connection: Connection, limit?: number): Promise<readonly string[]> =>
  (await appList(connection, limit)).apps;

/** Like `apps`, with the currently loaded apps. */
export const appList = async (connection: Connection, limit?: number): Promise<AppList> =>
  ask(connection, routes.apps.path, (answers) => answers.appsAnswer, { limit });

/** `GET /repo_apps/{id}`. */
export const app = async (connection: Connection, id: string, limit?: number): Promise<AppAnswer> =>
  ask(connection, appPath(id), (answers) => answers.appAnswer, { limit });

/** Asks the server to look for new commits in its repositories. @throws HttpError for a server without this route, saying so */
export const refresh = (connection: Connection): Promise<RefreshAnswer> =>
  askOptional(
    ask(connection, routes.refresh.path, (answers) => answers.refreshAnswer, {
      method: routes.refresh.method,
    }),
    [errorKinds.notFound, errorKinds.methodNotAllowed],
    `${connection.server} cannot refresh its apps while it runs, like KonfAI's server: restart it instead`,
  );

/** The state of the server's repositories. */
export const refreshed = async (connection: Connection): Promise<RefreshAnswer> =>
  ask(connection, routes.refreshed.path, (answers) => answers.refreshAnswer);

/** `GET /jobs/{id}`. @param signal ends this request, instead of the signal for the connection's other requests */
export const job = async (
  connection: Connection,
  id: string,
  limit?: number,
  signal?: AbortSignal,
): Promise<JobAnswer> => ask(connection, jobPath(id), (answers) => answers.jobAnswer(id), { limit, signal });

/** Which jobs are requested. */
interface JobQuery {
  /** Whether to list the jobs of all owners; only for an admin. */
  readonly all?: boolean | undefined;
  /** Only jobs with this tag. */
  readonly tag?: string | undefined;
  /** Maximum number of jobs; by default all. */
  readonly limit?: number | undefined;
}

/**
 * The answer of a route that a server, such as KonfAI's, may not have.
 * @param kinds the errors that such a server answers with; these are thrown with `message`
 */
const askOptional = <T>(answer: Promise<T>, kinds: readonly { readonly status: number }[], message: string) =>
  answer.catch((error): never => {
    const isAnswer = error instanceof HttpError && !error.isOfProxy;
    const isMissing = isAnswer && kinds.some(({ status }) => status === error.status);
    throw isMissing ? new HttpError(error.status, message, null) : error;
  });

/**
 * `GET /jobs`, newest first: a route that KonfAI's server lacks.
 * @throws HttpError for a server without it, saying so
 */
export async function jobs(
  connection: Connection,
  { all = false, tag, limit = Number.POSITIVE_INFINITY }: JobQuery = {},
): Promise<readonly JobAnswer[]> {
  const found = new Map<string, JobAnswer>();
  const asked = new URLSearchParams({
    ...(all ? { [parameters.all.name]: '1' } : {}),
    ...(tag === undefined ? {} : { [parameters.tag.name]: tag }),
    ...(limit < maxListed ? { [parameters.limit.name]: String(limit) } : {}),
  });
  const message = `${connection.server} has no list of jobs, like KonfAI's server: ask for each job by its id`;
  for (;;) {
    const options = asked.size > 0 ? { query: `?${asked}` } : {};
    const answer = ask(connection, routes.jobs.path, (answers) => answers.jobsAnswer, options);
    const list = (await askOptional(answer, [errorKinds.notFound], message)).jobs;
    const before = found.size;
    for (const each of list) found.set(each.job_id, each);
    const last = list.at(-1);
    // A server without paging sends the same list again.
    const isLastPage = list.length < maxListed || found.size === before;
    if (!last || isLastPage || found.size >= limit) return [...found.values()].slice(0, limit);
    asked.set(parameters.before.name, last.job_id);
  }
}

/** How many jobs other owners have; 0 if the server does not say, which it does only to an admin. */
export const jobsOfOthers = async (connection: Connection): Promise<number> =>
  (await ask(connection, routes.jobs.path, (answers) => answers.jobsAnswer)).others ?? 0;

/**
 * `GET /usage`, a route that KonfAI's server lacks.
 * @param query `since` as ISO 8601, by default everything on record; `all` for the usage of all owners, only for an admin
 */
export const usage = (
  connection: Connection,
  query: { readonly since?: string; readonly all?: '1' } = {},
  limit?: number,
): Promise<Usage> => {
  const asked = new URLSearchParams(query);
  return ask(connection, routes.usage.path, (answers) => answers.usageAnswer, {
    query: asked.size > 0 ? `?${asked}` : '',
    limit,
  });
};

/**
 * `POST /jobs/{id}/kill`; the answer comes when the job's processes are gone. The signal that ends the connection's other
 * requests does not end this one, because an interruption is followed by a kill.
 */
export const kill = async (connection: Connection, id: string, timeout: number): Promise<KillReply> =>
  ask(connection, killPath(id), (answers) => answers.killAnswer(id), {
    method: routes.kill.method,
    // Node takes whole milliseconds only.
    signal: AbortSignal.timeout(Math.ceil(timeout * 1000)),
  });

/**
 * `DELETE /jobs/{id}` for a job that has ended: a route that KonfAI's server lacks. @throws HttpError for a server without it,
 * saying so
 */
export function remove(connection: Connection, id: string): Promise<RemovedJob> {
  const { method } = routes.remove;
  const answer = ask(connection, jobPath(id), (answers) => answers.removedAnswer(id), { method });
  const message = `${connection.server} removes jobs only by itself, some time after they end, like KonfAI's server`;
  return askOptional(answer, [errorKinds.methodNotAllowed], message);
}

/**
 * Requests one of the `/drain` routes, which only remote-app has.
 * @throws HttpError for a server without it, saying so
 */
function askDrain(
  connection: Connection,
  method: 'GET' | 'POST' | 'DELETE',
  gpus?: string,
): Promise<DrainState> {
  const message = `${connection.server} cannot be drained, like KonfAI's server`;
  const query = gpus === undefined ? '' : `?${parameters.drainedGpus.name}=${encodeURIComponent(gpus)}`;
  const answer = ask(connection, routes.drain.path, (answers) => answers.drainAnswer, { method, query });
  return askOptional(answer, [errorKinds.notFound], message);
}

/** `GET /drain`, only for an admin. */
export const drainState = (connection: Connection): Promise<DrainState> =>
  askDrain(connection, routes.draining.method);

/** `POST /drain`, or `DELETE /drain` to accept new jobs again, for the server or these GPUs; only for an admin. */
export const setDraining = (
  connection: Connection,
  isDraining: boolean,
  gpus: string | undefined,
): Promise<DrainState> =>
  askDrain(connection, isDraining ? routes.drain.method : routes.undrain.method, gpus);

/** One GPU of the server, with its memory if known: clusters and some drivers do not report it. */
export interface Gpu extends Partial<MemoryUse> {
  readonly id: number;
  readonly name: string;
  /** Whether no job uses the GPU. KonfAI's server does not report this. */
  readonly free?: boolean;
  /** The job that uses the GPU, if the sender may know. */
  readonly job?: DeviceJob;
  /** All jobs that share the GPU; absent if there are fewer than two. */
  readonly jobs?: readonly DeviceJob[];
  /** Why new jobs do not get this GPU; absent if they do. */
  readonly out?: OutOfUse;
  /** Apps loaded on the GPU; absent if there are none. */
  readonly loaded?: readonly string[];
}

/** The memory of a GPU; empty if the server answers that it is not available, as for a GPU that is lost. */
async function memoryOf(connection: Connection, id: number): Promise<Partial<MemoryUse>> {
  try {
    return await vram(connection, id);
  } catch (cause) {
    const { memoryUnknown, gpusUnknown } = errorKinds;
    const absent: readonly number[] = [memoryUnknown.status, gpusUnknown.status];
    if (cause instanceof HttpError && absent.includes(cause.status)) return {};
    throw cause;
  }
}

/** Whether a job uses a GPU, and which one, as far as the server reports it. */
function holdOf(list: DeviceList, index: number): Pick<Gpu, 'free' | 'job' | 'jobs'> {
  const { devices_free, devices_jobs, devices_shared } = list;
  const free = devices_free?.[index];
  if (free !== undefined) return { free };
  const job = devices_jobs?.[index];
  if (job === undefined) return {};
  const jobs = devices_shared?.[index] ?? [];
  return {
    free: job === null,
    ...(job?.job_id !== undefined && { job }),
    ...(jobs.length > 1 && { jobs }),
  };
}

/** GPUs and memory of the server. */
export interface Machine {
  readonly gpus: readonly Gpu[];
  readonly ram: MemoryUse;
  /** Apps that are loaded without a GPU; absent if there are none. */
  readonly cpu_loaded?: readonly string[];
}

/** Asks for the GPUs, the memory of each, and the RAM (docs/http.md, Health and system). */
export async function readMachine(connection: Connection): Promise<Machine> {
  const [list, memory] = await Promise.all([devices(connection), ram(connection)]);
  const gpus = await Promise.all(
    list.devices_index.map(async (id, index) => ({
      id,
      name: list.devices_name[index] ?? '',
      ...holdOf(list, index),
      ...(list.devices_out?.[index] && { out: list.devices_out[index] }),
      ...(list.devices_loaded?.[index] !== undefined && { loaded: list.devices_loaded[index] }),
      ...(list.devices_free === undefined && (await memoryOf(connection, id))),
    })),
  );
  return { gpus, ram: memory, ...(list.cpu_loaded && { cpu_loaded: list.cpu_loaded }) };
}

/** Maximum wait for further details about a failed job, in seconds. */
const maxWait = 10;

/** What the view of a failed job says besides the reason. */
const factsOf = (connection: Connection, jobId: string, view: JobAnswer | null) => ({
  kind: view?.kind ?? null,
  expiresAt: view?.expires_at ?? null,
  leftFiles: view?.left_files ?? null,
  now: connection.now(),
  fetch: fetchLeft(connection, jobId),
});

/** The error of a job that ended without a result, as far as the job itself says why. */
export const failureIn = (connection: Connection, view: JobAnswer): JobFailed =>
  new JobFailed(
    view.job_id,
    view.status === 'killed' ? 'killed' : 'error',
    view.error ?? 'no reason given',
    factsOf(connection, view.job_id, view),
  );

/**
 * The same, from the answer of the result route. The status alone is not enough: KonfAI's server answers 202 for a killed job.
 * @returns null for an answer that says something else
 */
export async function jobFailure(
  connection: Connection,
  jobId: string,
  status: number,
  text: string,
): Promise<JobFailed | null> {
  const data = await bodyOf(text, ({ endBody }) => endBody);
  if (!data) return null;
  const isRefused = status === refusedResult && data.status === 'error';
  const view = await job(connection, jobId, maxWait).catch(() => null);
  const reason = data.error ?? view?.error ?? 'no reason given';
  const facts = factsOf(connection, jobId, view);
  // An app refuses arguments of its own command line, so these are replaced by flags.
  if (isRefused) return new JobFailed(jobId, 'refused', withFlags(reason), facts);
  return new JobFailed(jobId, data.status, reason, facts);
}

/**
 * Asks the server why a job ended without a result.
 * @returns null if the server does not say: it may be stopped, or no longer know the job
 */
export async function askFailure(connection: Connection, jobId: string): Promise<JobFailed | null> {
  try {
    const reply = await connection.send(resultPath(jobId), {});
    if (reply.statusCode !== 200)
      return await jobFailure(connection, jobId, reply.statusCode, await connection.words(reply));
    // The answer is the result itself, which is not needed here.
    discard(reply);
    return null;
  } catch (error) {
    if (connection.signal?.aborted) throw error;
    return null;
  }
}
