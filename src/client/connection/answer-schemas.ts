import * as z from 'zod/mini';
import {
  healthy,
  jobStates,
  type KillReply,
  type RemovedJob,
  uploadNamePattern,
} from '../../contract/index.js';
import type { Answer } from './answers.js';
import { appIdPattern, pathJobId } from './identifiers.js';

/**
 * Schemas of a server's answers. Types are strict, but fields that KonfAI's server leaves out (docs/konfai.md) are optional
 * and read as null. Unknown fields are dropped.
 */

// Each schema is used once per process, so compiling it would take longer than interpreting it.
z.config({ jitless: true });

const mebibyte = 1024 * 1024;

/** Maximum length of a list of jobs or apps. */
const maxListItems = 100_000;
/** Maximum number of GPUs of one machine: the memory of each is requested separately. */
const maxGpus = 256;

const text = z.string();
const orNull = <T extends z.ZodMiniType>(schema: T) => z._default(z.nullable(schema), null);
const textOrNull = orNull(text);

/** A list whose length is checked before its elements: a million wrong elements would make a million issues. */
const listOf = <T extends z.ZodMiniType>(schema: T, maxItems = maxListItems) =>
  z.pipe(z.array(z.unknown()).check(z.maxLength(maxItems)), z.array(schema));

const jobId = text.check(z.regex(pathJobId, 'which is not the id of a job'));
const appId = text.check(z.regex(appIdPattern, 'which is not the identifier of an app'));

const figure = z.number().check(z.minimum(0));

const whole = z.int().check(z.minimum(0));

/** Seconds, at most a thousand years, so that date arithmetic works. */
const duration = figure.check(z.maximum(3e10));

const jobFields = {
  status: z.enum(jobStates),
  error: textOrNull,
  kind: textOrNull,
  app: textOrNull,
  operation: textOrNull,
  tag: textOrNull,
  deidentified: orNull(z.boolean()),
  inputs: z._default(listOf(text), []),
  owner: textOrNull,
  created_at: textOrNull,
  started_at: textOrNull,
  finished_at: textOrNull,
  run_seconds: orNull(duration),
  peak_memory: orNull(figure),
  peak_gpu_memory: orNull(figure),
  cpu_seconds: orNull(figure),
  expires_at: textOrNull,
  keep: orNull(duration),
  time_limit: orNull(duration),
  left_files: orNull(whole),
  bytes_kept: orNull(figure),
  assigned_gpus: z._default(z.nullable(z.array(z.int())), []),
  start: textOrNull,
  /** Absent if the server has no versions; null if the version is unknown. */
  version: z.optional(z.nullable(text)),
  queue_position: orNull(whole),
  waiting_for: textOrNull,
};
const listedJob = z.object({ job_id: jobId, ...jobFields });
export type JobAnswer = z.infer<typeof listedJob>;

const answer = <T>(what: string, schema: z.ZodMiniType<T>, maxBytes = mebibyte): Answer<T> => ({
  what,
  check: (document) => schema.safeParse(document),
  maxBytes,
});

export const healthAnswer = answer(
  'the health of a service',
  z.object({ status: z.literal(healthy.status), faults: z._default(z.array(z.string()), []) }),
);

const deviceJob = z.object({ job_id: z.optional(text), owner: z.optional(textOrNull) });

export const devicesAnswer = answer(
  'a list of GPUs',
  z.object({
    devices_index: listOf(whole, maxGpus),
    devices_name: listOf(text, maxGpus),
    devices_free: z.optional(listOf(z.boolean(), maxGpus)),
    devices_jobs: z.optional(listOf(z.nullable(deviceJob), maxGpus)),
    devices_shared: z.optional(listOf(listOf(deviceJob), maxGpus)),
    devices_out: z.optional(listOf(z.nullable(z.enum(['drained', 'faulty'])), maxGpus)),
    devices_loaded: z.optional(listOf(listOf(text), maxGpus)),
    cpu_loaded: z.optional(listOf(text)),
  }),
);

export const memoryAnswer = answer('a use of memory', z.object({ used_gb: figure, total_gb: figure }));

const limits = z.object({
  version: textOrNull,
  max_file_size: orNull(figure),
  max_upload_size: orNull(figure),
  max_dataset_size: orNull(figure),
  max_jobs: orNull(figure),
  max_gpus: orNull(figure),
  max_kept: orNull(figure),
  grace: orNull(figure),
  max_keep: orNull(figure),
  max_run_time: orNull(figure),
  max_fine_tune_time: orNull(figure),
  require_deidentified: orNull(z.boolean()),
  uploads: orNull(z.object({ keep: figure })),
  of_server: z.optional(
    z.object({
      max_jobs: figure,
      max_upload_size: figure,
      user: z.optional(z.object({ max_jobs: orNull(figure), max_kept: orNull(figure) })),
    }),
  ),
});
export type LimitsAnswer = z.infer<typeof limits>;
export const limitsAnswer: Answer<LimitsAnswer> = answer('the limits of a server', limits);

export const appsAnswer = answer(
  'a list of apps',
  z.object({ apps: listOf(appId), loaded: z.optional(listOf(appId)) }),
  16 * mebibyte,
);

const anyJob = z.object({ job_id: z.optional(text), ...jobFields });

/**
 * The answer about one job that was requested by its id, so the id may be missing. All jobs share a schema, since a command may ask
 * about thousands.
 */
export const jobAnswer = (id: string): Answer<JobAnswer> => ({
  what: 'a job',
  check(document) {
    const checked = anyJob.safeParse(document);
    if (!checked.success) return checked;
    const { job_id, ...fields } = checked.data;
    // The answer is about another job; this parse produces the error.
    if (job_id !== undefined && job_id !== id)
      return z.object({ job_id: z.literal(id), ...jobFields }).safeParse(document);
    return { success: true, data: { job_id: id, ...fields } };
  },
  maxBytes: mebibyte,
});

export const jobsAnswer = answer(
  'a list of jobs',
  z.object({ jobs: listOf(listedJob), others: z.optional(figure) }),
  16 * mebibyte,
);

export const usageAnswer = answer(
  'what jobs have used',
  z.object({
    since: textOrNull,
    usage: listOf(
      z.object({
        owner: textOrNull,
        app: text,
        jobs: figure,
        gpu_hours: figure,
        cpu_hours: z._default(figure, 0),
        bytes_in: figure,
        bytes_out: figure,
        bytes_kept: figure,
        last_used: text,
      }),
    ),
    uploads: listOf(z.object({ owner: textOrNull, uploads: figure, bytes_kept: figure })),
  }),
  16 * mebibyte,
);

export const killAnswer = (id: string): Answer<KillReply> =>
  answer(
    'what became of a job',
    z.object({
      job_id: z._default(z.literal(id), id),
      status: z.enum(jobStates),
      message: z._default(text, ''),
    }),
  );

export const drainAnswer = answer(
  'whether the server accepts new jobs',
  z.object({ draining: z.boolean(), active: figure, gpus: z.optional(listOf(whole, maxGpus)) }),
);

export const removedAnswer = (id: string): Answer<RemovedJob> =>
  answer(
    'the removal of a job',
    z.object({ job_id: z._default(z.literal(id), id), status: z.literal('removed') }),
  );

/**
 * The paths in the answer are ignored, because they follow from the id. Options that it does not list count as not acknowledged.
 */
export const envelopeAnswer = answer(
  'an accepted job',
  z.object({ job_id: jobId, accepted_options: z.catch(z.array(text), []) }),
);

const volumes = z.record(
  z.string(),
  z.object({
    display_name: z._default(text, ''),
    volume_type: z._default(text, ''),
    required: orNull(z.boolean()),
    default: orNull(z.union([text, z.number(), z.boolean()])),
    unit: z.optional(text),
  }),
);
const names = orNull(z.array(text));
const count = orNull(z.number());

const problem = textOrNull;
const origin = z.object({
  name: text,
  revision: text,
  commit: text,
  checked_at: textOrNull,
  problem,
});
const repositoryApps = z.object({
  refreshing: z.boolean(),
  apps: listOf(
    z.object({
      app: appId,
      available: z.boolean(),
      commit: textOrNull,
      checked_at: textOrNull,
      problem,
    }),
  ),
});
export type RefreshAnswer = z.infer<typeof repositoryApps>;
export const refreshAnswer: Answer<RefreshAnswer> = answer(
  'what is known of the repositories',
  repositoryApps,
  16 * mebibyte,
);

const values = z.catch(z.optional(z.array(z.number())), undefined);
const snomed = z.catch(z.optional(z.object({ code: text, meaning: text })), undefined);

const references = z.array(z.object({ text, doi: z.optional(text), licence: z.optional(text) }));

const observed = z.object({ operation: text, resource: text, jobs: figure, median: figure, maximum: figure });

/** Unknown keys are kept, because apps report more than this program displays. */
const availableApp = z.looseObject({
  app: appId,
  available: z._default(z.literal(true), true),
  display_name: text,
  description: z._default(text, ''),
  short_description: z._default(text, ''),
  checkpoints_name: names,
  checkpoints_name_available: names,
  maximum_tta: count,
  mc_dropout: count,
  patch_size: orNull(z.array(z.number())),
  has_capabilities: z._default(z.array(z.boolean()), []),
  finetunable: z.optional(z.boolean()),
  inputs: z._default(volumes, {}),
  outputs: z._default(volumes, {}),
  inputs_evaluations: z._default(z.record(z.string(), z.record(z.string(), volumes)), {}),
  terminology: z.optional(z.record(z.string(), z.object({ name: text, color: text, snomed, values }))),
  citation: z.catch(z.optional(references), undefined),
  resources: z.catch(
    z.optional(z.looseObject({ operations: z.optional(z.record(z.string(), z.unknown())) })),
    undefined,
  ),
  observed: z.catch(z.optional(z.array(observed)), undefined),
  task: z.optional(z.unknown()),
  vram_plan: z.optional(z.unknown()),
  parameters: z.optional(z.unknown()),
  repository: z.catch(z.optional(origin), undefined),
  version: z.catch(z.optional(z.nullable(text)), undefined),
});
const unavailableApp = z.object({ app: appId, available: z.literal(false), reason: textOrNull });
export type AvailableAppAnswer = z.infer<typeof availableApp>;
export type AppAnswer = AvailableAppAnswer | z.infer<typeof unavailableApp>;

export const appAnswer: Answer<AppAnswer> = answer(
  'the description of an app',
  z.union([unavailableApp, availableApp]),
);

/** The body of an error answer, from remote-app or KonfAI's server: a sentence, or a list of problems with their locations. */
export const refusalBody = z.object({
  detail: z.catch(
    z.optional(
      z.union([
        text,
        listOf(z.object({ loc: z.optional(z.array(z.unknown())), msg: z.optional(text) }), 1000),
      ]),
    ),
    undefined,
  ),
  error: z.catch(z.optional(text), undefined),
  uploads: z.catch(z.optional(listOf(text.check(z.regex(uploadNamePattern)))), undefined),
});

/** The body of the answer to `/result` for a job that has not ended. Another server may have other states. */
export const unfinishedBody = z.object({ status: text });

/** The body of the answer to `/result` for a job that failed or was killed. */
export const endBody = z.object({
  status: z.enum(['error', 'killed']),
  error: z.catch(textOrNull, null),
});
