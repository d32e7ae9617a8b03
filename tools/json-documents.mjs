/**
 * What `--json` prints, by command: the tables of docs/cli.md, and what test/docs/json-documents.test.ts holds the real output
 * to. Objects are strict, so that a name that is not described here fails the test, as one that no longer comes does.
 */
import { z } from 'zod';
import { resultFormats } from '../dist/client/result-formats.js';
import { jobStates } from '../dist/contract/job.js';
import { operationNames, operationOf } from '../dist/contract/operations.js';

const object = z.strictObject;
const id = z.string().describe("The job's id");
const state = z.enum(jobStates);
const time = z.iso.datetime().nullable();
const path = (what) => z.string().describe(`Absolute path of ${what}`);

/** What an error prints, for every command, in place of its document. */
const errorFields = {
  message: z.string().describe('What happened, and what to do'),
  exit_code: z.number().int().describe('What the process ends with'),
  http_status: z.number().int().optional().describe('The status of the answer, where the server refused'),
  retry_after: z.number().optional().describe('Seconds after which the server may be asked again'),
  fault: z
    .enum(['unreached', 'broken', 'timeout', 'unusable'])
    .optional()
    .describe('How the connection failed; `unusable` also where something other than the service answered'),
  code: z
    .string()
    .optional()
    .describe("The system's code of a file that could not be written, such as `ENOSPC`"),
  job_id: id.optional().describe('The job that the error is about'),
  status: state.optional().describe('Its state'),
  reason: z.string().optional().describe('Why the job failed, in the words of the server or of its app'),
  kind: z.string().nullable().optional().describe('`out-of-memory`, or null for any other error'),
  refused: z.boolean().optional().describe('Whether its app refused the input'),
  expires_at: time.optional().describe('Until when the job is kept'),
  left_files: z.number().int().nullable().optional().describe('How many files it left in its output'),
  ignored_options: z.array(z.string()).optional().describe('Options that the server did not read'),
};
const error = object(errorFields).describe('Why it failed, or what to know of its result');
export const errorDocument = object({ error });

const failure = object({
  job_id: id,
  error: error.describe('Why it failed for this job'),
});

const sending = {
  sent: z
    .record(z.string(), z.array(z.array(object({ path: z.string(), name: z.string() }))))
    .describe('By field, then for each group: the files that were sent, and what they were called'),
  skipped: z.array(z.string()).describe('Files beside volumes that were not sent'),
};
const kept = {
  keep: z.number().nullable().describe('Seconds that the server keeps the job after its end'),
  expires_at: time.describe('Until when it is kept, once it has ended'),
};
const saved = {
  archive: path('the zip').nullable().describe('Absolute path of the zip; null with --no-zip'),
  output: path('the directory that it was extracted into'),
  files: z.number().int().describe('How many files it had'),
  bytes: z.number().int().describe('Bytes of these files'),
  notes: z
    .array(z.string())
    .describe(
      "A sentence for each file that could not be extracted under its name; the job's log says what the server left out",
    ),
};

const job = object({
  job_id: id,
  status: state.describe('Its state'),
  error: z.string().nullable().describe('Why it failed, or what to know of its result'),
  kind: z.string().nullable().describe('`out-of-memory`, or null for any other error, and for none'),
  app: z.string().nullable(),
  operation: z.string().nullable(),
  tag: z.string().nullable().describe("The person's own word for it"),
  deidentified: z
    .boolean()
    .nullable()
    .describe(
      'Whether the client said that nothing sent tells who somebody is; null if the server is an older one',
    ),
  inputs: z.array(z.string()).describe('Names of its input files, at most the first 100'),
  owner: z
    .string()
    .nullable()
    .describe('Name of the token that it was submitted with; null for the one of the environment'),
  created_at: time,
  started_at: time,
  finished_at: time.describe('When it ended, its result packed'),
  run_seconds: z
    .number()
    .nullable()
    .describe('Seconds that its command ran, without the packing of its result'),
  peak_memory: z.number().nullable().describe('Bytes of memory that it had at most; null if not known'),
  peak_gpu_memory: z.number().nullable().describe('The same for the memory of any one of its GPUs'),
  cpu_seconds: z.number().nullable().describe('Seconds of CPU time that it used; null if not known'),
  expires_at: time.describe('Until when it is kept, once it has ended'),
  keep: z.number().nullable().describe('Seconds that it is kept after its end'),
  time_limit: z.number().nullable().describe('Seconds that it may run; null for as long as it takes'),
  left_files: z
    .number()
    .int()
    .nullable()
    .describe('How many files it left in its output, if it has no result'),
  bytes_kept: z.number().nullable().describe('Bytes that it takes on the disk of the server'),
  assigned_gpus: z.array(z.number().int()).describe('Ids of the GPUs that it has or had'),
  start: z
    .string()
    .nullable()
    .describe(
      'Whether it found its app loaded (warm) or not (cold); null for an app that does not stay loaded',
    ),
  version: z
    .string()
    .nullable()
    .describe('The version of its app when its command began; null before that, and if it is not known'),
  queue_position: z.number().int().nullable().describe('1 is next; null once it does not wait'),
  waiting_for: z.string().nullable().describe('What it waits for, in words'),
});

const names = z.array(z.string());
const memory = { used_gb: z.number().describe('In GB of 1024^3 bytes'), total_gb: z.number() };
const machine = object({
  gpus: z.array(
    object({
      id: z.number().int(),
      name: z.string(),
      free: z.boolean().optional().describe('Whether no job holds it; missing if the server is an older one'),
      job: object({ job_id: id, owner: z.string().nullable() })
        .optional()
        .describe('The job that holds it: one of your own, or any for an admin'),
      jobs: z
        .array(object({ job_id: id.optional(), owner: z.string().nullable().optional() }))
        .optional()
        .describe(
          'All jobs that share it, the oldest first; only where several do. Those of others have no fields',
        ),
      out: z
        .enum(['drained', 'faulty'])
        .optional()
        .describe('Why no new job gets it: an admin has drained it, or it does not work'),
      loaded: names.optional().describe('Apps that are loaded on it; only where one is'),
      used_gb: memory.used_gb.optional(),
      total_gb: z
        .number()
        .optional()
        .describe('Missing where the memory of a GPU is not told: on a cluster, and by some drivers'),
    }),
  ),
  ram: object(memory),
  cpu_loaded: names.optional().describe('Apps that are loaded without a GPU; only where one is'),
});

const volumes = z.record(
  z.string(),
  object({
    display_name: z.string(),
    volume_type: z.string(),
    required: z.boolean().nullable(),
    default: z.union([z.string(), z.number(), z.boolean()]).nullable(),
    unit: z.string().optional().describe('Of its values'),
  }),
);
const snomed = object({ code: z.string(), meaning: z.string() }).describe(
  'The code of what it marks in SNOMED CT',
);
const count = z.number().int().nullable();
const citation = z
  .array(
    object({
      text: z.string(),
      doi: z.string().optional(),
      licence: z.string().optional().describe('Of the weights'),
    }),
  )
  .describe('What to cite of the app; empty if it says nothing');
// An app may tell of more than is known.
const app = z.looseObject({
  app: z.string().describe('Its identifier'),
  available: z.literal(true),
  display_name: z.string(),
  description: z.string(),
  short_description: z.string(),
  checkpoints_name: names.describe('Checkpoints that it lists'),
  checkpoints_name_available: names.describe('Checkpoints that are there'),
  maximum_tta: count.describe('Most passes of test-time augmentation'),
  mc_dropout: count.describe('Most passes of MC dropout'),
  patch_size: z.array(z.number().int()).nullable(),
  has_capabilities: z.array(z.boolean()).describe('Inference, evaluation, uncertainty'),
  finetunable: z.boolean(),
  observed: z
    .array(
      object({
        operation: z.string(),
        resource: z.string().describe('`gpu_memory` or `memory`'),
        jobs: z.number().int(),
        median: z.number(),
        maximum: z.number(),
      }),
    )
    .optional()
    .describe('Bytes that its latest jobs with a result had at most'),
  inputs: volumes.describe('By key, what one case consists of'),
  outputs: volumes.describe('By key, what it writes for a case'),
  inputs_evaluations: z
    .record(z.string(), z.record(z.string(), volumes))
    .describe('By evaluation, then by its file, what it reads'),
  terminology: z
    .record(z.string(), object({ name: z.string(), color: z.string(), snomed: snomed.optional() }))
    .optional()
    .describe('By label, what it means'),
  citation: citation.optional(),
  repository: object({
    name: z.string(),
    revision: z.string(),
    commit: z.string().describe('The commit whose files are shown'),
    checked_at: time.describe('When the hub last answered'),
    problem: z.string().nullable().describe('Why it was not asked since, or what is wrong'),
  })
    .optional()
    .describe('Where an app of a repository comes from'),
  version: z
    .string()
    .nullable()
    .optional()
    .describe("Changes with the app's files alone; null while it is being computed, absent if there is none"),
  task: z.unknown().optional().describe('What kind of app it is'),
  vram_plan: z.unknown().optional().describe('What it needs of memory'),
  parameters: z
    .unknown()
    .optional()
    .describe(
      'What `--set` changes, as far as the app tells; every other key of its `app.json` is there as it stands',
    ),
});

const conversion = object({
  as: z.array(z.enum(resultFormats)).describe('The formats that were asked for'),
  outputs: z
    .array(object({ from: z.string(), as: z.enum(resultFormats), name: z.string() }))
    .describe(
      'Files of the result that were written, each from another one of it; one that was written from several masks is there for each of them',
    ),
  problems: z.array(z.string()).describe('What was not converted, and why'),
}).describe('What became of --as; null without it');

const submitted = (...segments) => [
  {
    when: 'when the job is done',
    schema: object({
      job_id: id,
      status: z.literal('done'),
      app: z.string().describe('The app that ran'),
      operation: segments.length === 1 ? z.literal(segments[0]) : z.enum(segments),
      conversion: conversion.nullable(),
      ...saved,
      ...sending,
      ...kept,
    }),
  },
  {
    when: 'with `--detach`',
    schema: object({
      job_id: id,
      status_url: z.string().describe('Path of its state on the server, and the like'),
      logs_url: z.string(),
      result_url: z.string(),
      accepted_options: names.describe('Options that the server read'),
      ...sending,
      ...kept,
    }),
  },
];

const numbers = z
  .record(z.string(), z.number())
  .describe('The numbers that its result carries, as in the table');
const caseFields = {
  case: z.string().describe('Its name: the path of its result'),
  subject: z.string().nullable().describe('The label of `sub-` in the paths of its files'),
  session: z.string().nullable().describe('That of `ses-`'),
  reason: z.string().nullable().describe('Why it failed, or what to know of its result'),
  kind: z.string().nullable().describe('`out-of-memory`, or null for any other error, and for none'),
  version: z.string().nullable().describe('The version of the app that made its result'),
  seconds: z.number().nullable().describe('How long its job ran'),
  job_id: id.nullable(),
  is_new: z.boolean().describe('Whether this command brought its result, and not an earlier one'),
  edited: z.array(z.string()).describe('Files of its result, or beside it, that a person has changed'),
  numbers,
};
const counts = z.record(z.string(), z.number().int());
const leaving = {
  deidentify: z.enum(['full', 'names']).nullable().describe('Null where files would leave as they are'),
  kept: counts.describe(
    'How many files would keep each attribute; empty where files would leave as they are',
  ),
  removed: counts.describe('How many would lose each'),
  typed: z.record(z.string(), z.unknown()).describe('Values that would be sent as typed, by their fields'),
};
const plannedJob = {
  when: 'with `--dry-run`',
  schema: object({
    ...leaving,
    files: z.array(
      object({
        field: z.string(),
        group: z.number().int().describe('Counted from 0'),
        path: z.string(),
        name: z.string().describe('The name under which it would leave'),
        files: z.number().int(),
        bytes: z.number().int().describe('Before anything is packed'),
      }),
    ),
  }),
};
/** What the operations print that can run one job for each case. */
const eachCase = [
  {
    when: 'with `--each`',
    schema: object({
      output: path('the directory of the results'),
      table: path('`cases.csv`'),
      cases: z.array(
        object({
          ...caseFields,
          status: z
            .enum(['done', 'failed', 'waiting'])
            .describe('waiting: the command ended before its turn'),
        }),
      ),
    }),
  },
  {
    when: 'with `--each --watch`, one on a line for each change of a case, before the document above',
    schema: object({
      ...caseFields,
      status: z.enum(['waiting', 'reading', 'sending', 'running', 'fetching', 'done', 'failed']),
    }),
  },
  {
    when: 'with `--each --dry-run`',
    schema: object({
      cases: z.array(
        object({
          case: z.string().describe('Its name'),
          sent: sending.sent,
          bytes: z.number().int().describe('Bytes of its files, before they are packed'),
        }),
      ),
      ...leaving,
    }),
  },
];

const eachJob = (entry, more) => [
  { when: null, schema: object({ jobs: z.array(z.union([entry, ...more])) }) },
];

const newToken = object({
  name: z.string(),
  role: z.enum(['user', 'admin']),
  expires_at: time.describe('Until when it counts; null for ever'),
  token: z.string().describe('The token, which is kept nowhere'),
});
const limit = z.number().int().nullable().optional();
const limitTable = object({ max_jobs: limit, max_gpus: limit, max_kept: limit, max_upload: limit });
const inheritedLimit = object({
  most: z.number().int(),
  of: z
    .enum(['role', 'server'])
    .describe('Whose it is: of its role in the file, or of the server for all together'),
}).optional();
const listedToken = object({
  name: z.string(),
  role: z.enum(['user', 'admin']),
  state: z.enum(['active', 'expired', 'revoked']),
  created_at: time,
  expires_at: time,
  revoked_at: time,
  limits: limitTable.describe('Its own; null for none, whatever its role has'),
  apps: names.optional().describe('Ids of the apps that it has; missing if it has all'),
  inherited: object({
    max_jobs: inheritedLimit,
    max_gpus: inheritedLimit,
    max_kept: inheritedLimit,
    max_upload: inheritedLimit,
  }).describe('What holds where it has none of its own; those of the server only if that told them'),
  last_used: time
    .optional()
    .describe('When a job of its owner last ended, now while one is active; missing if no server told'),
  bytes_kept: z.number().optional().describe('What the jobs of its owner keep on the server'),
});

/** By command, its documents: each with when it is printed, and its schema. */
export const jsonDocuments = {
  ...Object.fromEntries(
    operationNames.map(operationOf).map(({ command, segment, paths }) => {
      const more = [plannedJob, ...(paths === 'dataSet' ? [] : eachCase)];
      return [command, [...submitted(segment), ...more]];
    }),
  ),
  apps: [
    {
      when: 'without an app',
      schema: object({
        apps: names.describe('Identifiers'),
        loaded: names.optional().describe('Those that are loaded; only where there is one'),
      }),
    },
    { when: 'with an app', schema: app },
    {
      when: 'with an app whose files cannot be read',
      schema: object({ app: z.string(), available: z.literal(false), reason: z.string().nullable() }),
    },
    {
      when: 'with `--refresh` and without an app',
      schema: object({
        refreshing: z.boolean().describe('Whether the server still looks'),
        apps: z.array(
          object({
            app: z.string(),
            available: z.boolean(),
            commit: z.string().nullable().describe('The commit that the server has'),
            checked_at: time.describe('When the hub last answered'),
            problem: z.string().nullable().describe('Why it is not available, or not up to date'),
          }),
        ),
      }),
    },
    {
      when: 'with `--config`',
      schema: object({ app: z.string(), config: path('the directory'), files: z.number().int() }),
    },
  ],
  cite: [
    {
      when: null,
      schema: object({
        cited: z.array(
          object({
            app: z.string().describe('Its identifier'),
            display_name: z.string(),
            app_version: z.string().nullable().describe('Null if the server does not say'),
            operation: z.string(),
            checkpoints: names.describe(
              'Those that were chosen, or all of the app; empty if that is not known',
            ),
            citation,
            server_version: z.string().nullable().describe('Of remote-app there; null for another server'),
            client_version: z.string(),
            devices: names.describe('Names of the GPUs; empty for the CPU'),
            job_ids: names.describe('The jobs of which all of this is true'),
            sentence: z
              .string()
              .describe('For a methods section, with the numbers of the references, from 1'),
          }),
        ),
      }),
    },
  ],
  completion: [{ when: null, schema: object({ script: z.string() }) }],
  convert: [
    {
      when: null,
      schema: object({
        from: path('the file or the directory that was converted'),
        converted: z.array(
          object({
            as: z.enum(resultFormats),
            output: path('what was written'),
            labels: z
              .array(object({ value: z.number().int(), name: z.string() }))
              .describe('The labels that occur; empty for formats that do not name them'),
            note: z.string().nullable().describe('What to know of it; null if there is nothing'),
          }),
        ),
      }),
    },
  ],
  drain: [
    {
      when: null,
      schema: object({
        draining: z.boolean().describe('Whether new jobs are refused'),
        active: count.describe('Jobs and uploads that have not ended'),
        gpus: z.array(z.number().int()).describe('Ids of the GPUs that new jobs do not get'),
      }),
    },
  ],
  forward: [
    {
      when: null,
      schema: object({
        host: z.string().describe('Where it listens'),
        port: z.number().int().describe('The port, which is also that of `::1`'),
        token: z.string().describe('The bearer token that other programs give; another one in each run'),
        server: z.string().describe('The address that requests are passed on to'),
      }),
    },
  ],
  gpus: [{ when: null, schema: machine, isLine: 'with `--watch`, one on a line for each change' }],
  health: [
    { when: null, schema: object({ status: z.literal('ok'), server: z.string().describe('Its address') }) },
  ],
  check: [
    {
      when: null,
      schema: object({
        directory: path('the app'),
        ok: z.boolean().describe('Whether there is no problem; there may be notes'),
        findings: z.array(
          object({
            kind: z.enum(['ok', 'note', 'problem']),
            about: z.string().describe('The app, or the trial run'),
            says: z.string(),
          }),
        ),
      }),
    },
  ],
  init: [
    {
      when: null,
      schema: object({
        directory: path('the app'),
        language: z.string(),
        resident: z.boolean().describe('Whether it is started once for many jobs'),
        name: z.string(),
        files: names.describe('What was written, relative to the directory'),
        model: object({
          kind: z.string().describe('That of `--from`'),
          source: path('the network').nullable().describe('Null where no weights were found'),
          weights: z
            .enum(['linked', 'copied', 'fetched', 'missing'])
            .describe('`missing`: not all of them were found'),
          missing: names.describe('Weights that `main.py fetch` of the app downloads'),
          notes: z.array(z.string()).describe('What of the source was left out'),
        })
          .optional()
          .describe('With `--from`'),
      }),
    },
  ],
  inputs: [
    {
      when: null,
      schema: object({
        volumes: z.array(
          object({
            name: z.string().describe('The name by which an app gets it'),
            path: z.string().describe('The file, or the directory that has its files'),
            format: z
              .string()
              .nullable()
              .describe('Such as `DICOM` or `NIfTI`; null for one that is not known'),
            files: z.number().int(),
            bytes: z.number(),
            series: object({
              number: z.number().nullable().describe('SeriesNumber'),
              description: z.string().describe('SeriesDescription'),
              modality: z.string(),
              patient: z
                .string()
                .nullable()
                .describe(
                  'PatientID, or PatientName without one, where series of several patients are listed',
                ),
              images: z.number().int(),
              size: z
                .array(z.number())
                .describe('Columns, rows, and images or frames; empty where it is not said'),
              plane: z.enum(['axial', 'coronal', 'sagittal', 'oblique']).nullable(),
              remarks: z
                .array(z.string())
                .describe('Slices that are missing, several images at one position'),
            })
              .nullable()
              .describe('Of DICOM images of a directory; null for others'),
          }),
        ),
        skipped: z.array(z.string()).describe('Files beside volumes that are not sent'),
        copies: z.array(z.string()).describe('Identical copies of images that are sent'),
        strays: z
          .array(z.string())
          .describe('What lies in a Zarr store, is no part of it by its metadata, and is not sent'),
        followed: z
          .array(object({ path: z.string(), target: z.string().describe('Where it leads') }))
          .describe('Links that lead out of what was named, to volumes'),
        objects: z
          .array(object({ path: z.string(), modality: z.string() }))
          .describe('DICOM objects without an image that are not sent'),
        refused: z
          .array(object({ path: z.string(), reason: z.string().describe('A sentence') }))
          .describe('What cannot be sent: because of it, nothing of the paths is'),
      }),
    },
  ],
  jobs: [
    {
      when: null,
      schema: object({ jobs: z.array(job) }),
      isLine: 'with `--watch`, one on a line for each change',
    },
  ],
  kill: eachJob(
    object({ job_id: id, status: state.describe('Its state'), message: z.string().describe('In words') }),
    [failure],
  ),
  login: [
    {
      when: null,
      schema: object({
        profile: z.string().describe('The name of the profile'),
        server: z.string().describe('Its address'),
        file: path('the file that the profile is in'),
      }),
    },
  ],
  logout: [
    {
      when: null,
      schema: object({
        profile: z.string().describe('The name of the profile'),
        server: z.string().describe('Its address'),
        removed: z.boolean().describe('Whether it had a token'),
      }),
    },
  ],
  logs: [
    {
      when: 'on a line of its own, for each line of the log',
      schema: object({
        line: z.number().int().describe('Its number in the log, from 1 on'),
        text: z.string(),
        redraw: z
          .literal(true)
          .optional()
          .describe('Whether it is the state of a progress bar that another one follows'),
      }),
    },
    {
      when: 'on the last line, if the job is done',
      schema: object({
        job_id: id,
        status: z.literal('done'),
        lines: z.number().int().describe('How many lines were printed'),
      }),
    },
    {
      when: 'on the last line, if the job failed or was killed',
      schema: object({ job_id: id, status: state.describe('Its state'), error }),
    },
  ],
  result: [
    {
      when: null,
      schema: object({ job_id: id, status: state.nullable().describe('Its state'), ...saved, ...kept }),
    },
  ],
  retry: submitted(...operationNames.map((name) => operationOf(name).segment)),
  rm: eachJob(object({ job_id: id, status: z.literal('removed') }), [failure]),
  show: [
    {
      when: null,
      schema: object({
        cases: z.array(
          object({
            name: z.string(),
            status: z.string().nullable().describe('In the table beside its result; null without one'),
            scan: z.string().nullable().describe('The file, or the directory of a series; null for none'),
            mask: z.string().nullable().describe('The segmentation; null for none'),
            maps: z.array(z.string()).describe('Continuous volumes that were made from the scan'),
            labels: z.array(
              object({
                value: z.number().int(),
                name: z.string(),
                voxels: z.number().int(),
                millilitres: z.number(),
              }),
            ),
            layers: z
              .array(
                object({
                  name: z.string(),
                  path: z.string(),
                  labels: z.array(
                    object({
                      value: z.number().int(),
                      name: z.string(),
                      voxels: z.number().int(),
                      millilitres: z.number(),
                    }),
                  ),
                }),
              )
              .describe('All segmentations of the case, each with its labels'),
            notes: z.array(z.string()).describe('What to know of the case'),
          }),
        ),
        png: z.string().nullable().describe('The sheet that was drawn'),
        html: z.string().nullable().describe('The page that was written'),
        problems: z.array(z.string()).describe('Why volumes are not shown'),
      }),
    },
  ],
  status: [{ when: null, schema: job }],
  'token:create': [{ when: null, schema: newToken }],
  'token:limit': [
    {
      when: null,
      schema: object({
        of: z.string().describe('The name, or the role'),
        limits: limitTable,
        apps: names.optional().describe('The apps of the token; missing if it has all'),
      }),
    },
  ],
  'token:list': [{ when: null, schema: object({ tokens: z.array(listedToken) }) }],
  'token:revoke': [{ when: null, schema: object({ name: z.string(), revoked_at: time }) }],
  'token:rotate': [{ when: null, schema: newToken }],
  usage: [
    {
      when: null,
      schema: object({
        since: time.describe('Since when; null for all that is noted'),
        usage: z.array(
          object({
            owner: z.string().nullable().describe('Name of the token; null for the one of the environment'),
            app: z.string(),
            jobs: z.number().int().describe('How many have ended'),
            gpu_hours: z.number().describe('Hours on a GPU, times the number of GPUs'),
            cpu_hours: z.number().describe('Hours of CPU time'),
            bytes_in: z.number().describe('Of the uploads'),
            bytes_out: z
              .number()
              .describe('Of the results; of the files of one that is packed while it is downloaded'),
            bytes_kept: z
              .number()
              .optional()
              .describe('What its jobs keep on the server now; missing if the server is an older one'),
            last_used: z.string().optional().describe('When the last of them ended; now, while one has not'),
          }),
        ),
        uploads: z
          .array(
            object({
              owner: z.string().nullable().describe('Name of the token; null for the one of the environment'),
              uploads: z.number().int().describe('Files that are kept for later submissions'),
              bytes_kept: z.number().describe('What they keep on the server now'),
            }),
          )
          .optional()
          .describe('Missing if the server is an older one'),
      }),
    },
  ],
  wait: eachJob(
    object({
      job_id: id,
      status: state.nullable().describe('Its state, if it is known'),
      error: error.nullable().describe('Why there is no result, or why the wait ended before the job'),
      exit_code: z.number().int().describe('What the command would end with for this job alone'),
    }),
    [],
  ),
};
