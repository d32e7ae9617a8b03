import { mkdirSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import type { RouterContext } from '@koa/router';
import type { Owner, Principal } from '../../access/index.js';
import {
  type AppRefusal,
  type AvailableApp,
  carriesFiles,
  FieldError,
  fieldWithRole,
  fileRefusals,
  formatBytes,
  jobEnvelope,
  kindBytes,
  mediaTypes,
  needsOf,
  type Operation,
  type OperationName,
  operationNames,
  operationOf,
  optionsField,
  parameters,
  quoteName,
  readText,
  refusals,
  ServiceError,
} from '../../contract/index.js';
import { firstBytes, isForbidden, isMissing, Turns } from '../../files/index.js';
import type { AppCatalog } from '../apps/index.js';
import { askForBody, captured, contentLength, principalOf, queryText, senderOf } from '../http/index.js';
import { Job, type JobFiles, type JobService, type Slot } from '../jobs/index.js';
import type { Report } from '../report.js';
import {
  checkClaim,
  checkIdentities,
  checkStated,
  EarlyChecks,
  type FormFields,
  isDeidentified,
  limitsOf,
  NamedUploads,
  placeFiles,
  type ReceivedForm,
  readForm,
  readJson,
  receiveForm,
  type SubmissionForm,
  type SubmissionSettings,
  within,
} from '../submissions/index.js';
import type { DiskSpace, UploadStore } from '../uploads/index.js';

export interface SubmitDeps {
  readonly catalog: AppCatalog;
  readonly jobs: JobService;
  readonly limits: SubmissionSettings;
  /** Null if the server stores no uploads. */
  readonly uploads: UploadStore | null;
  readonly disk: DiskSpace;
  /** Turns for extracting large archives, one after another. */
  readonly largeArchives: Turns;
  /** Turns for large JSON. */
  readonly largeJson: Map<Owner, Turns>;
  readonly report: Report;
}

/** Bytes from which a submission of JSON takes one of its owner's turns: JSON is kept in memory until all of it is there. */
const largeJsonBytes = 64 << 10;
const largeJsonAtOnce = 4;

/** Waits until an owner's JSON of this length may be read. @returns what ends the turn; undefined if it needs none */
async function turnToRead(ctx: RouterContext, owner: Owner, { largeJson }: SubmitDeps) {
  if ((contentLength(ctx) ?? largeJsonBytes) < largeJsonBytes) return undefined;
  const turns = largeJson.get(owner) ?? new Turns(largeJsonAtOnce);
  largeJson.set(owner, turns);
  return await turns.take(senderOf(ctx).refused);
}

/** The paths of a job's files after their directory was moved. */
const withNewDirectory = (files: JobFiles, from: string, to: string): JobFiles =>
  Object.fromEntries(
    Object.entries(files).map(([name, groups]) => [
      name,
      groups.map((group) => group.map((file) => path.join(to, path.relative(from, file)))),
    ]),
  );

/**
 * What a form requests from this server besides processing its files.
 * @throws ServiceError, or FieldError, if this server is known not to have the devices, or allows less
 */
function askedOf(
  name: OperationName,
  { values, given }: Pick<FormFields, 'values' | 'given'>,
  app: AvailableApp,
  principal: Principal,
  jobs: JobService,
) {
  const operation = operationOf(name);
  const needs = needsOf(app.resources, operation);
  const { name: gpu } = fieldWithRole(operation, 'gpus');
  const { name: cpu } = fieldWithRole(operation, 'workers');
  const { name: keep } = fieldWithRole(operation, 'keep');
  const { name: timeLimit } = fieldWithRole(operation, 'timeLimit');
  const { name: retryAlone } = fieldWithRole(operation, 'retryAlone');
  const asked = {
    gpus: values[gpu] as readonly number[] | undefined,
    isCpu: given.has(cpu),
    workers: Number(values[cpu]),
  };
  return {
    device: jobs.terms.devices(principal, gpu, asked, app.app, needs),
    needs,
    /** Seconds. */
    keep: jobs.terms.keepFor(keep, values[keep]),
    /** Seconds; null for no limit. */
    timeLimit: jobs.terms.timeLimit(name, timeLimit, values[timeLimit]),
    /** The user's choice takes precedence over the app's. */
    retryAlone: (given.has(retryAlone) ? values[retryAlone] : app.retry_alone) === true,
  };
}

/**
 * Refuses a submission that the query announces, so that the files of a refused one are never sent.
 * @throws ServiceError as for the submission itself; FieldError for a parameter that cannot be read
 */
export const checkAnnounced =
  ({ catalog, jobs }: Pick<SubmitDeps, 'catalog' | 'jobs'>) =>
  async (ctx: RouterContext): Promise<void> => {
    const app = queryText(ctx, parameters.app);
    if (app === '') return;
    const asked = queryText(ctx, parameters.operation);
    const name = operationNames.find((each) => operationOf(each).segment === asked);
    if (!name) throw new FieldError(parameters.operation.name, `must be one of ${operationNames.join(', ')}`);
    const principal = principalOf(ctx);
    const described = await catalog.available(app, principal.apps);
    const devices = operationOf(name).fields.filter(({ role }) => role === 'gpus' || role === 'workers');
    const given = devices.flatMap((field) => {
      const value = readText(field, queryText(ctx, field));
      return value === undefined ? [] : [[field.name, value] as const];
    });
    const fields = { values: Object.fromEntries(given), given: new Set(given.map(([each]) => each)) };
    askedOf(name, fields, described, principal, jobs);
  };

/** Maximum number of files per submission whose first bytes are read, because reading them blocks the event loop. */
const maxRead = 1000;

/**
 * Checks that the files are of kinds that the app accepts.
 * @throws ServiceError `invalidField` that names each file that is not
 */
function checkKinds(
  app: AvailableApp,
  operation: Operation,
  { groups }: Pick<SubmissionForm, 'groups'>,
): void {
  let left = maxRead;
  const startOf = (file: string) => {
    left -= 1;
    return left < 0 ? Buffer.alloc(0) : firstBytes(file, kindBytes);
  };
  const contents = groups
    .get(fieldWithRole(operation, 'paths'))
    ?.map((files) => files.map(({ name, path: file }) => ({ name, start: () => startOf(file) })));
  refuse(app, fileRefusals(app, operation, contents ?? []));
}

/** The media type of the body: a form, or JSON that names uploads. @throws ServiceError for any other type, and without a body */
function bodyType(ctx: RouterContext): string {
  const types = [mediaTypes.form, mediaTypes.json];
  // `is` returns null without a body, whatever the type.
  const type = ctx.is(types);
  if (type) return type;
  const stated = types.find((each) => ctx.get('Content-Type').startsWith(each));
  if (type === null && stated !== undefined) {
    const what = stated === mediaTypes.form ? 'a form' : 'JSON';
    throw new ServiceError('badRequest', `The request says that it is ${what}, and has no body`);
  }
  throw new ServiceError('notMultipart', `The body must be ${types.join(', or ')}`);
}

/** Refuses a submission if there are refusals. @throws ServiceError `invalidField` that lists all of them */
function refuse(app: AvailableApp, refused: readonly AppRefusal[]): void {
  const found = refused.map(({ field, value, problem }) => {
    const sentence = `the app ${quoteName(app.app)} ${problem}`;
    if (field === null) return new ServiceError('invalidField', sentence.replace('the', 'The'));
    const name = field.option ? `${optionsField}.${field.name}` : field.name;
    const hasValue = value !== null && !carriesFiles(field);
    return new FieldError(
      name,
      `${hasValue ? `has the value ${quoteName(value)}` : 'does not fit'}: ${sentence}`,
    );
  });
  const [first] = found;
  if (first) throw new ServiceError(first.code, found.map(({ detail }) => detail).join('; '));
}

/** Reports that the data directory is not writable, which only the admin can change. Returns the error for the client. */
function unwritable(cause: unknown, report: Report): ServiceError {
  report('A submission could not be written to the data directory', cause);
  const detail = 'The server cannot write its data directory, so it takes no jobs until its admin fixes that';
  return new ServiceError('unwritable', detail, { cause });
}

/** Receives the body of a submission and turns it into a job. The slot removes everything that does not become part of a job. */
async function receiveSubmission(
  ctx: RouterContext,
  app: string,
  name: OperationName,
  slot: Slot,
  idempotencyKey: string | null,
  deps: SubmitDeps,
): Promise<Job> {
  const operation = operationOf(name);
  const { directory, allowed, awaited } = slot;
  const principal = principalOf(ctx);
  const sender = senderOf(ctx);
  const limits = within(limitsOf(deps.limits, operation), allowed);
  const stated = contentLength(ctx) ?? 0;
  checkStated(stated, limits);
  using space = deps.disk.reservationFor(principal.name);
  await space.take(stated, `an upload of ${formatBytes(stated)}`);
  const type = bodyType(ctx);
  const described = await deps.catalog.available(app, principal.apps);
  askForBody(ctx);

  const incoming = path.join(directory.path, 'Incoming');
  mkdirSync(incoming, { mode: 0o700 });
  const { requireDeidentified } = deps.limits;
  const checks = new EarlyChecks(operation, (fields) => {
    if (requireDeidentified) checkClaim(isDeidentified(operation, fields.values));
    const given = Object.entries(fields.values).filter(([field]) => fields.given.has(field));
    const values = { ...Object.fromEntries(given), ...fields.options };
    refuse(described, refusals(described, operation, values, null));
    askedOf(name, fields, described, principal, deps.jobs);
  });
  using uploads = new NamedUploads(deps.uploads?.of(principal.name) ?? null);
  const removeRefused = async (cause: unknown): Promise<never> => {
    if (cause instanceof ServiceError && cause.code === 'notDeidentified') await uploads.removeAll();
    throw cause;
  };
  const receive = async (): Promise<ReceivedForm> => {
    if (type === mediaTypes.form)
      return await receiveForm(ctx, incoming, { limits, checks, space, awaited, refused: sender.refused });
    const release = await turnToRead(ctx, principal.name, deps);
    const named = await readJson(ctx, operation, limits, awaited).finally(release);
    await uploads.pin(named);
    for (const { field } of named.files) checks.beforeFile(field, named.fields);
    return uploads.fill(named);
  };
  const received = await receive().catch(removeRefused);
  allowed.count(received.bytes);
  // The job gets copies of uploads.
  if (type === mediaTypes.json) await space.take(received.bytes, 'copies of the uploads');

  const form = readForm(operation, received);
  const counts = [...form.groups].map(([field, groups]) => [field.name, groups.length]);
  refuse(described, refusals(described, operation, form.values, Object.fromEntries(counts)));
  checkKinds(described, operation, form);
  askedOf(name, form, described, principal, deps.jobs);
  const { files, extracted } = await placeFiles(form.groups, directory.input, {
    limits,
    space,
    largeArchives: deps.largeArchives,
    onExtract: (bytes) => allowed.count(received.bytes + bytes),
  });
  if (requireDeidentified) await checkIdentities(directory.input).catch(removeRefused);
  await rm(incoming, { recursive: true });
  directory.makeDirectories();

  // Checked again after all slow steps, so that a token that was revoked meanwhile, or may no longer use the app, gets no job.
  const now = sender.now();
  deps.catalog.get(app, now.apps);
  const { values, acceptedOptions, tag, deidentified, inputs } = form;
  const request = {
    ...{ app, operation: name, values, acceptedOptions, tag, deidentified, inputs, idempotencyKey },
    ...askedOf(name, form, described, now, deps.jobs),
    owner: principal.name,
  };
  return await deps.jobs.accept(slot, request, {
    files: withNewDirectory(files, directory.path, slot.finalDirectory.path),
    notes: form.ignored.map((field) => `Ignored field ${quoteName(field)}: no operation has it`),
    bytes: received.bytes,
    extracted,
  });
}

/** The job for a submission: a new one, or that of an earlier submission with the same idempotency key. */
async function jobOf(ctx: RouterContext, name: OperationName, deps: SubmitDeps): Promise<Job> {
  const principal = principalOf(ctx);
  const app = deps.catalog.get(captured(ctx), principal.apps).id;
  const idempotencyKey = ctx.get(parameters.idempotencyKey.name) || null;
  const begun = await deps.jobs.begin(principal, idempotencyKey, contentLength(ctx));
  if (begun instanceof Job) return begun;
  await using slot = begun;
  return await receiveSubmission(ctx, app, name, slot, idempotencyKey, deps);
}

/** `POST /apps/{app}/{operation}`: makes its checks in the order of docs/http.md (Submission), and answers with the envelope. */
export const submit = (name: OperationName, deps: SubmitDeps) => async (ctx: RouterContext) => {
  try {
    const job = await jobOf(ctx, name, deps);
    ctx.body = jobEnvelope(job.id, job.request.acceptedOptions);
  } catch (cause) {
    const { refused } = senderOf(ctx);
    if (refused.aborted) throw refused.reason;
    throw isForbidden(cause) || isMissing(cause) ? unwritable(cause, deps.report) : cause;
  }
};
