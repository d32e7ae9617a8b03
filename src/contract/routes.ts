import type { ErrorCode } from './errors.js';
import { parameters, type RequestParameter } from './http.js';
import type { JobEnvelope, JobState } from './job.js';
import { eachOperation, type OperationName, operations } from './operations.js';

export interface Route {
  readonly method: 'GET' | 'POST' | 'DELETE' | 'HEAD' | 'PATCH' | 'OPTIONS';
  /**
   * Relative to the base address; `{app}`, `{id}` and `{sha256}` stand for an app's identifier, a job's, and the name of an
   * upload.
   */
  readonly path: string;
  readonly summary: string;
  /** The operation whose fields the request's form, or its JSON, contains. */
  readonly form?: OperationName;
  /** Whether the body, if any, consists of an upload's bytes. */
  readonly bytes?: boolean;
  readonly parameters?: readonly RequestParameter[];
  /** The answers by status: the name of a contract type, an archive, or a log; null for an answer without a body. */
  readonly answers: Readonly<Record<number, string | null>>;
  /** The errors that it may answer with in addition to `commonErrors`. */
  readonly errors: readonly ErrorCode[];
}

/** The errors that any route may answer with. */
export const commonErrors = [
  'missingToken',
  'invalidToken',
  'foreignOrigin',
  'internal',
  'shortage',
  'tooManyConnections',
] as const satisfies readonly ErrorCode[];

/** The errors of requests that reach no route. */
export const unroutedErrors = [
  'badRequest',
  'notFound',
  'methodNotAllowed',
  'headersTooLarge',
] as const satisfies readonly ErrorCode[];

/** The status if the client already has the current result (RFC 9110, sections 13.1.2 and 13.1.3). */
export const notModified = 304;

/** The status of the result route if a job has no result, by the job's state. */
export const withoutResult = {
  queued: 202,
  waiting: 202,
  running: 202,
  error: 500,
  killed: 409,
} as const satisfies Record<Exclude<JobState, 'done'>, number>;

/** The status of the result route for a job that failed because its app refused the input. */
export const refusedResult = 422;

/** The errors of every route that takes a job's id. */
const jobErrors = ['unknownJob', 'expired', 'unreadableJob'] as const;

/** The errors of routes that drain a server or its GPUs. */
const drainErrors = ['adminOnly', 'invalidField', 'unknownGpu', 'gpusUnknown'] as const;

const get = (
  path: string,
  summary: string,
  answers: Route['answers'],
  errors: readonly ErrorCode[] = [],
  more: readonly RequestParameter[] = [],
): Route & { readonly method: 'GET' } => ({
  method: 'GET',
  path,
  summary,
  answers,
  errors,
  parameters: more,
});

const submission = (form: OperationName): Route => ({
  method: 'POST',
  path: submitRoute(operations[form].segment),
  summary: operations[form].summary,
  form,
  parameters: [parameters.idempotencyKey],
  answers: { 200: 'JobEnvelope' },
  errors: [
    'badRequest',
    'unknownGpu',
    'unknownApp',
    'uploadStalled',
    'fileTooLarge',
    'uploadTooLarge',
    'notMultipart',
    'uploadsMissing',
    'invalidField',
    'notDeidentified',
    'busy',
    'noGpu',
    'shuttingDown',
    'draining',
    'upgraded',
    'diskFull',
    'unwritable',
    'keptFull',
  ],
});

const uploadRoute = '/uploads/{sha256}';

/** The errors of every route about one upload. */
const uploadErrors = ['unknownUpload', 'otherProtocol'] as const satisfies readonly ErrorCode[];

/** The errors of every route that receives bytes of an upload. */
const writing = [
  'badRequest',
  'otherProtocol',
  'uploadStalled',
  'fileTooLarge',
  'uploadTooLarge',
  'notOffsetStream',
  'invalidField',
  'wrongContent',
  'uploadInUse',
  'wrongChecksum',
  'shuttingDown',
  'keptFull',
  'diskFull',
  'unwritable',
] as const satisfies readonly ErrorCode[];

/** The path for submitting the operation with this segment. */
const submitRoute = (segment: string): string => `/apps/{app}/${segment}`;

/**
 * The routes of the service (docs/http.md, Routes). The server's router, the client's paths and docs/openapi.json are derived
 * from them.
 */
export const routes = {
  health: get('/health', 'Health check; also lists what keeps jobs waiting', { 200: 'Health' }),
  devices: get('/available_devices', 'The GPUs', { 200: 'DeviceList' }, ['gpusUnknown']),
  ram: get('/ram', 'RAM', { 200: 'MemoryUse' }),
  vram: get(
    '/vram',
    'VRAM, summed over the requested GPUs',
    { 200: 'MemoryUse' },
    ['unknownGpu', 'invalidField', 'gpusUnknown', 'memoryUnknown'],
    [parameters.devices],
  ),
  limits: get(
    '/limits',
    'Limits for submissions; with a query, answers 422 if the app needs more than the server has',
    { 200: 'Limits' },
    ['unknownApp', 'invalidField', 'unknownGpu', 'noGpu'],
    [parameters.app, parameters.operation, parameters.gpu, parameters.cpu],
  ),
  metrics: get('/metrics', "Metrics in Prometheus' text format; admins only", { 200: 'Metrics' }, [
    'adminOnly',
    'notFound',
  ]),
  apps: get('/repo_apps_list', 'The apps', { 200: 'AppList' }),
  app: get('/repo_apps/{app}', 'Description of an app', { 200: 'AppView' }, ['unknownApp']),
  appConfig: get('/repo_apps_config/{app}', "An app's files, without its weights", { 200: 'Archive' }, [
    'unknownApp',
    'notFound',
  ]),
  refresh: {
    method: 'POST',
    path: '/repo_apps_refresh',
    summary: "Starts checking the apps' repositories for new commits",
    answers: { 200: 'RefreshView' },
    errors: [],
  },
  refreshed: get('/repo_apps_refresh', 'State of the apps that come from repositories', {
    200: 'RefreshView',
  }),
  ...eachOperation(submission),
  uploadTerms: {
    method: 'OPTIONS',
    path: '/uploads',
    summary: 'Which parts of tus 1.0 the server supports, as headers',
    answers: { 204: null },
    errors: ['notFound'],
  },
  beginUpload: {
    method: 'POST',
    path: '/uploads',
    summary: 'Creates an upload, named by its content, optionally with its first bytes',
    bytes: true,
    parameters: [
      parameters.tusResumable,
      parameters.uploadLength,
      parameters.uploadMetadata,
      parameters.uploadChecksum,
    ],
    answers: { 201: null },
    errors: ['notFound', ...writing],
  },
  upload: {
    method: 'HEAD',
    path: uploadRoute,
    summary: 'Offset of an upload',
    parameters: [parameters.tusResumable],
    answers: { 200: null },
    errors: uploadErrors,
  },
  appendUpload: {
    method: 'PATCH',
    path: uploadRoute,
    summary: 'Appends to an upload',
    bytes: true,
    parameters: [parameters.tusResumable, parameters.uploadOffset, parameters.uploadChecksum],
    answers: { 204: null },
    errors: ['wrongOffset', 'unknownUpload', ...writing],
  },
  removeUpload: {
    method: 'DELETE',
    path: uploadRoute,
    summary: 'Removes an upload',
    parameters: [parameters.tusResumable],
    answers: { 204: null },
    errors: [...uploadErrors, 'uploadInUse'],
  },
  usage: get(
    '/usage',
    "What finished jobs used, by owner and app; your own jobs, or everybody's for an admin",
    { 200: 'Usage' },
    ['invalidField'],
    [parameters.usedSince, parameters.all],
  ),
  jobs: get(
    '/jobs',
    'Your jobs, newest first',
    { 200: 'JobList' },
    ['adminOnly', 'invalidField', ...jobErrors],
    [parameters.all, parameters.tag, parameters.limit, parameters.before],
  ),
  job: get('/jobs/{id}', 'One job', { 200: 'JobView' }, jobErrors),
  logs: get(
    '/jobs/{id}/logs',
    "A job's log as server-sent events",
    { 200: 'Log' },
    [...jobErrors, 'invalidField', 'streamOpen', 'tooManyStreams'],
    [parameters.since, parameters.tail, parameters.redraws, parameters.lastEventId],
  ),
  log: get(
    '/jobs/{id}/log',
    "A job's log so far, as text, whole or by ranges",
    { 200: 'LogText', 206: 'LogText' },
    [...jobErrors, 'noSuchRange'],
  ),
  result: get(
    '/jobs/{id}/result',
    "A job's result, whole or by ranges",
    {
      200: 'Archive',
      206: 'Archive',
      [notModified]: null,
      [withoutResult.running]: 'UnfinishedJob',
      [withoutResult.killed]: 'EndedJob',
      [withoutResult.error]: 'EndedJob',
      [refusedResult]: 'EndedJob',
    },
    [...jobErrors, 'invalidField', 'nothingLeft', 'otherResult', 'noSuchRange'],
    [parameters.partial],
  ),
  kill: {
    method: 'POST',
    path: '/jobs/{id}/kill',
    summary: 'Kills a job',
    answers: { 200: 'KillReply' },
    errors: jobErrors,
  },
  remove: {
    method: 'DELETE',
    path: '/jobs/{id}',
    summary: 'Removes a finished job and its result',
    answers: { 200: 'RemovedJob' },
    errors: [...jobErrors, 'jobActive'],
  },
  drain: {
    method: 'POST',
    path: '/drain',
    summary: 'Stops accepting new jobs, or stops giving them these GPUs; admins only',
    parameters: [parameters.drainedGpus],
    answers: { 200: 'DrainState' },
    errors: drainErrors,
  },
  draining: get(
    '/drain',
    'Whether new jobs are accepted, how many are active, and which GPUs are drained; admins only',
    { 200: 'DrainState' },
    ['adminOnly'],
  ),
  undrain: {
    method: 'DELETE',
    path: '/drain',
    summary: 'Accepts new jobs again, or gives them these GPUs again; admins only',
    parameters: [parameters.drainedGpus],
    answers: { 200: 'DrainState' },
    errors: drainErrors,
  },
} as const satisfies Record<string, Route>;
export type RouteName = keyof typeof routes;

export const routeNames = Object.keys(routes) as readonly RouteName[];

/** A route's path with its parameter, fully percent-encoded: slashes in it do not split the path. */
const filled = (path: string, parameter: string): string =>
  path.replace(/\{\w+\}/, () => encodeURIComponent(parameter));

/**
 * An app's path with its identifier. Slashes are not encoded, because some proxies reject encoded ones, unless a part of the
 * identifier is `.` or `..`, which would lead to another path.
 */
const filledWithApp = (path: string, app: string): string => {
  const encoded = encodeURIComponent(app);
  const isElsewhere = /(^|\/)\.{1,2}(\/|$)/.test(app);
  return path.replace(/\{\w+\}/, () => (isElsewhere ? encoded : encoded.replaceAll('%2F', '/')));
};

export const appPath = (app: string): string => filledWithApp(routes.app.path, app);
export const appConfigPath = (app: string): string => filledWithApp(routes.appConfig.path, app);
/** @param segment an operation's last path part (`infer`, `fine_tune`, ...) */
export const submitPath = (app: string, segment: string): string => filledWithApp(submitRoute(segment), app);
export const jobPath = (id: string): string => filled(routes.job.path, id);
/** The job of a path under `/jobs/{id}`; undefined for any other path. Ids contain no escaped characters. */
export const jobIdOf = (path: string): string | undefined => /^\/jobs\/([^/?]+)/.exec(path)?.[1];
export const logsPath = (id: string): string => filled(routes.logs.path, id);
export const logTextPath = (id: string): string => filled(routes.log.path, id);
export const resultPath = (id: string): string => filled(routes.result.path, id);
export const killPath = (id: string): string => filled(routes.kill.path, id);

/** An upload's address relative to that of all uploads, because a server does not know the path that a proxy puts in front. */
export const uploadLocation = (sha256: string): string => `uploads/${sha256}`;
export const uploadPath = (sha256: string): string => filled(routes.upload.path, sha256);

/** The envelope of a job; paths are relative to the base address. */
export function jobEnvelope(id: string, acceptedOptions: readonly string[]): JobEnvelope {
  return {
    job_id: id,
    status_url: jobPath(id),
    logs_url: logsPath(id),
    result_url: resultPath(id),
    accepted_options: [...acceptedOptions].sort(),
  };
}
