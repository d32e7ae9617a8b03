/** The bodies of answers, as OpenAPI schemas. */
import { mediaTypes } from '../dist/contract/http.js';
import { jobErrorKinds, jobIdPattern, jobStarts, jobStates, maxCounted } from '../dist/contract/job.js';
import { operationNames } from '../dist/contract/operations.js';
import { notModified } from '../dist/contract/routes.js';
import { healthy } from '../dist/contract/system.js';
import {
  array,
  binary,
  boolean,
  integer,
  map,
  number,
  object,
  string,
  textOrNull,
  time,
} from './json-schema.mjs';

const integerOrNull = { type: ['integer', 'null'] };
const jobId = { ...string, pattern: jobIdPattern.source };
const deviceJob = { type: 'object', properties: { job_id: jobId, owner: textOrNull } };
const status = { enum: jobStates };
const kind = { enum: [...jobErrorKinds, null], description: 'The kind of its error, if it is one of these' };
const volumes = map(
  object(
    { display_name: string, volume_type: string, required: boolean, default: textOrNull, unit: string },
    ['display_name', 'volume_type', 'required', 'default'],
  ),
);

const described = object({
  app: string,
  available: { const: true },
  display_name: string,
  description: string,
  short_description: string,
  checkpoints_name: array(string),
  checkpoints_name_available: array(string),
  maximum_tta: integer,
  mc_dropout: integer,
  patch_size: { type: ['array', 'null'], items: integer },
  has_capabilities: { ...array(boolean), description: 'Inference, evaluation, uncertainty' },
  finetunable: boolean,
  inputs: volumes,
  outputs: volumes,
  inputs_evaluations: { ...map(map(volumes)), description: 'By display name, then by evaluation file' },
});
const label = object({ name: string, color: string });
const snomed = {
  ...object({ code: string, meaning: string }),
  description: 'The code of what it marks in SNOMED CT; absent if the app says none',
};
const terminology = map({ ...label, properties: { ...label.properties, snomed } });
const citation = {
  ...array(object({ text: string, doi: string, licence: string }, ['text'])),
  description:
    'What to cite in a work that uses the app, each with its DOI and the licence of the weights where the app says them',
};
const problem = { ...textOrNull, description: 'Null if nothing is wrong' };
const repository = {
  ...object({ name: string, revision: string, commit: string, checked_at: time, problem }),
  description: 'Where an app of a repository comes from',
};
const parameters = {
  description:
    "What --set changes: what the app's app.json says, or the values of the model in its Prediction.yml, as {values, constraints, path}",
};
const task = {
  description: 'What kind of app it is, as its app.json says; so are keys that are not listed here',
};
const version = {
  ...textOrNull,
  description:
    'Changes with the files of the app and with nothing else: sha256: and a hash of their names and contents, or the commit of a repository. Null while it is being computed: ask again; absent if there is none',
};
const observed = {
  ...array(
    object({
      operation: { enum: operationNames },
      resource: { enum: ['gpu_memory', 'memory'] },
      jobs: integer,
      median: integer,
      maximum: integer,
    }),
  ),
  description:
    'Bytes that its latest jobs with a result had at most on this server; of GPU memory, on any one GPU',
};
const available = {
  ...described,
  properties: {
    ...described.properties,
    terminology,
    citation,
    repository,
    task,
    parameters,
    observed,
    version,
  },
};
const unavailable = object({ app: string, available: { const: false }, reason: string });

/** The bodies of answers by their names in the table of routes; the errors' is one more. */
export const schemas = {
  Error: {
    ...object({ detail: string }),
    properties: {
      detail: string,
      uploads: {
        ...array(string),
        description: 'Only of 409: the uploads that the submission names, and that are missing',
      },
    },
  },
  Health: object(
    {
      status: { const: healthy.status },
      faults: {
        ...array(string),
        description: 'Faults of the machine that keep jobs waiting; only while there are some',
      },
    },
    ['status'],
  ),
  DeviceList: {
    ...object({ devices_index: array(integer), devices_name: array(string) }),
    properties: {
      devices_index: array(integer),
      devices_name: array(string),
      devices_free: {
        ...array({ type: 'boolean' }),
        description: 'Whether no job holds it; only of the GPUs of a cluster',
      },
      devices_jobs: {
        ...array({ ...deviceJob, type: ['object', 'null'] }),
        description:
          'The job that holds each, null for none; without fields where it is not one of this token. Only of the GPUs of one machine',
      },
      devices_out: {
        ...array({ enum: ['drained', 'faulty', null] }),
        description: 'Why each gets no new job, null for one that does; only where there is such a GPU',
      },
      devices_shared: {
        ...array(array(deviceJob)),
        description: 'All jobs of each, the oldest first; only while several share one',
      },
      devices_loaded: {
        ...array(array(string)),
        description: 'The apps that are loaded on each, for jobs of this token; only where there is one',
      },
      cpu_loaded: {
        ...array(string),
        description: 'Those that are loaded without a GPU; only where there is one',
      },
    },
  },
  MemoryUse: object({ used_gb: number, total_gb: number }),
  Limits: object({
    version: { ...string, description: 'Of remote-app on the server' },
    max_file_size: integer,
    max_upload_size: integer,
    max_jobs: { ...integerOrNull, description: 'Active jobs of this token' },
    max_gpus: { ...integerOrNull, description: 'GPUs of its jobs at once' },
    max_kept: { ...integerOrNull, description: 'Bytes that its jobs may keep' },
    max_dataset_size: {
      type: ['integer', 'null'],
      description:
        'Bytes of the archive of a data set, and of what it extracts to; null where the other limits count for it',
    },
    grace: number,
    max_keep: number,
    max_run_time: { type: ['number', 'null'], description: 'Seconds that a job may run' },
    max_fine_tune_time: { type: ['number', 'null'], description: 'The same for fine-tuning' },
    require_deidentified: {
      ...boolean,
      description: 'Whether only submissions with a true `deidentified` are taken',
    },
    uploads: {
      type: ['object', 'null'],
      properties: { keep: { ...number, description: 'Seconds after the last use' } },
      description: 'How long uploads are kept that submissions may name; null where there are none',
    },
    of_server: {
      ...object({
        max_jobs: integer,
        max_upload_size: integer,
        user: object({ max_jobs: integerOrNull, max_kept: integerOrNull }),
      }),
      description:
        'What holds for all together, whoever asks: active jobs, and bytes of an upload; and for each `user` unless the file of the tokens differs',
    },
  }),
  AppList: {
    ...object({ apps: array(string) }),
    properties: {
      apps: array(string),
      loaded: {
        ...array(string),
        description: 'Those that are loaded, for jobs of this token; only where there is one',
      },
    },
  },
  AppView: { oneOf: [available, unavailable] },
  RefreshView: object({
    refreshing: boolean,
    apps: array(object({ app: string, available: boolean, commit: textOrNull, checked_at: time, problem })),
  }),
  JobEnvelope: object({
    job_id: jobId,
    status_url: string,
    logs_url: string,
    result_url: string,
    accepted_options: array(string),
  }),
  JobList: object(
    {
      jobs: array({ $ref: '#/components/schemas/JobView' }),
      others: { ...integer, description: 'Jobs of other owners, for an admin who has not asked for all' },
    },
    ['jobs'],
  ),
  Usage: object({
    since: time,
    usage: array(
      object({
        owner: textOrNull,
        app: string,
        jobs: integer,
        gpu_hours: number,
        cpu_hours: { ...number, description: 'Of CPU time' },
        bytes_in: integer,
        bytes_out: integer,
        bytes_kept: { ...integer, description: 'What its jobs keep on the disk of the server now' },
        last_used: { ...time, description: 'When the last of them ended; now, while one has not' },
      }),
    ),
    uploads: {
      ...array(object({ owner: textOrNull, uploads: integer, bytes_kept: integer })),
      description: 'What the uploads of each owner that has some keep on the disk of the server now',
    },
  }),
  JobView: object({
    job_id: jobId,
    status,
    error: textOrNull,
    kind,
    app: string,
    operation: { enum: operationNames },
    tag: { type: ['string', 'null'], description: "The person's own word for it" },
    deidentified: { ...boolean, description: 'Whether its client said that it is de-identified' },
    inputs: {
      ...array(string),
      description: 'Names of its input files, as they were sent; at most the first 100',
    },
    owner: { ...textOrNull, description: 'Name of the token that it was submitted with' },
    created_at: time,
    started_at: time,
    finished_at: { ...time, description: 'When it ended, its result packed' },
    run_seconds: {
      type: ['number', 'null'],
      description:
        'Seconds that its command ran, without the packing; null until it has ended, and if it never ran',
    },
    peak_memory: { ...integerOrNull, description: 'Bytes of memory that it had at most; null if not known' },
    peak_gpu_memory: { ...integerOrNull, description: 'The same for the memory of any one of its GPUs' },
    cpu_seconds: { type: ['number', 'null'], description: 'Seconds of CPU time that it used' },
    expires_at: time,
    keep: { ...integerOrNull, description: 'Seconds that it is kept after its end' },
    time_limit: { ...integerOrNull, description: 'Seconds that it may run' },
    left_files: {
      ...integerOrNull,
      description: `Files that a failed or killed job left in its output, counted up to ${maxCounted}`,
    },
    bytes_kept: {
      type: ['number', 'null'],
      description:
        'Bytes that it takes on the disk of the server: of an active job its upload, of one that has ended all that is left; null until they are counted',
    },
    assigned_gpus: array(integer),
    start: {
      enum: [...jobStarts, null],
      description:
        'Whether it found its app loaded; null for an app that does not stay loaded, and before it starts',
    },
    version: {
      ...textOrNull,
      description:
        'The version of its app when its command began; null before that, while it is being computed, and if it is not known',
    },
    queue_position: integerOrNull,
    waiting_for: textOrNull,
  }),
  UnfinishedJob: object({ job_id: jobId, status }),
  EndedJob: object({ job_id: jobId, status, error: textOrNull, kind }),
  KillReply: object({ job_id: jobId, status, message: string }),
  RemovedJob: object({ job_id: jobId, status: { const: 'removed' } }),
  Archive: binary,
  Log: string,
  LogText: string,
  Metrics: string,
  DrainState: object({ draining: boolean, active: integer, gpus: array(integer) }),
};

/** The media types of bodies other than JSON. */
export const typeOf = (body) =>
  ({
    Archive: mediaTypes.zip,
    Log: mediaTypes.events,
    LogText: mediaTypes.text,
    Metrics: mediaTypes.metrics,
  })[body] ?? mediaTypes.json;

/** The description of an answer with this body. */
export const descriptions = {
  Health: 'It does',
  DeviceList: 'Ids and names',
  MemoryUse: 'Gigabytes of 1024^3 bytes',
  Limits: 'Bytes of a file and of all files together; seconds that a job is kept after its end',
  AppList: 'Their identifiers',
  AppView: 'Its description, or why there is none',
  JobEnvelope: 'The job',
  JobList: 'Jobs',
  Usage: 'By owner and app',
  JobView: 'The job',
  UnfinishedJob: 'The job has not ended',
  EndedJob: 'The job failed or was killed',
  KillReply: 'It has ended',
  RemovedJob: 'It is removed',
  Archive: 'A zip archive',
  Log: 'The log',
  LogText: 'The log so far; a line that was redrawn ends with a carriage return and a line feed',
  DrainState: 'Whether new jobs are refused, and how many jobs and uploads are active',
  Metrics: 'One metric and its value on a line',
};

/** The description of an answer without a body, by its status. */
export const withoutBody = {
  200: 'It is there, as the headers tell: Upload-Offset, Upload-Length, Upload-Expires',
  201: 'It is begun, or was already: the headers tell its Location, Upload-Offset and Upload-Expires',
  204: 'Done; the headers tell the rest',
  [notModified]: 'The client already has the current result',
};
