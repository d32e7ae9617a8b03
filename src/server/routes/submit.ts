import { mkdirSync, readdirSync, renameSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import type { RouterContext } from '@koa/router';
import type { Principal } from '../../access/index.js';
import {
  type AppRefusal,
  type AvailableApp,
  carriesFiles,
  FieldError,
  type FieldValues,
  fieldWithRole,
  fileRefusals,
  jobEnvelope,
  kindBytes,
  mediaTypes,
  type OperationName,
  operationOf,
  optionsField,
  parameters,
  quoteName,
  refusals,
  ServiceError,
  UploadsMissing,
} from '../../contract/index.js';
import { firstBytes, isForbidden, isMissing } from '../../files/index.js';
import type { AppCatalog } from '../apps/index.js';
import { captured, principalOf, senderOf } from '../http/index.js';
import type { Job, JobFiles, JobService } from '../jobs/index.js';
import type { Report } from '../report.js';
import {
  askForBody,
  checkClaim,
  checkIdentities,
  checkSpace,
  EarlyChecks,
  type FormFields,
  isDeidentified,
  limitsOf,
  placeFiles,
  readForm,
  receiveForm,
  receiveJson,
  type SubmissionForm,
  type UploadSettings,
  type UploadTurns,
  within,
} from '../submissions/index.js';
import type { HeldUploads, UploadStore } from '../uploads/index.js';

export interface SubmitDeps {
  readonly catalog: AppCatalog;
  readonly jobs: JobService;
  readonly limits: UploadSettings;
  /** Null if the server keeps none. */
  readonly uploads: UploadStore | null;
  readonly turns: UploadTurns;
  readonly report: Report;
}

function contentLength(ctx: RouterContext): number | undefined {
  const text = ctx.get('Content-Length');
  return text === '' ? undefined : Number(text);
}

/** The paths of files after their directory was moved. */
const moved = (files: JobFiles, from: string, to: string): JobFiles =>
  Object.fromEntries(
    Object.entries(files).map(([name, groups]) => [
      name,
      groups.map((group) => group.map((file) => path.join(to, path.relative(from, file)))),
    ]),
  );

/**
 * What a form requests from this server in addition to its files.
 * @throws ServiceError, or FieldError, if this server is known not to have the devices, or allows less
 */
function askedOf(
  name: OperationName,
  { values, given }: Pick<FormFields, 'values' | 'given'>,
  asker: Principal,
  jobs: JobService,
) {
  const operation = operationOf(name);
  const { name: gpu } = fieldWithRole(operation, 'gpus');
  const { name: cpu } = fieldWithRole(operation, 'workers');
  const { name: keep } = fieldWithRole(operation, 'keep');
  const { name: timeLimit } = fieldWithRole(operation, 'timeLimit');
  return {
    device: jobs.terms.devices(asker, gpu, {
      gpus: values[gpu] as readonly number[] | undefined,
      isCpu: given.has(cpu),
      workers: Number(values[cpu]),
    }),
    /** Seconds. */
    keep: jobs.terms.keepFor(keep, values[keep]),
    /** Seconds; null for no limit. */
    timeLimit: jobs.terms.timeLimit(name, timeLimit, values[timeLimit]),
  };
}

/**
 * Checks a request against what the app declares.
 * @param groups number of groups for each file field; null before they have arrived
 * @throws ServiceError `invalidField` that names each field that the app does not take, or the operation that it does not
 *   have
 */
function checkApp(
  app: AvailableApp,
  operation: OperationName,
  values: FieldValues,
  groups: Readonly<Record<string, number>> | null,
): void {
  refuse(app, refusals(app, operationOf(operation), values, groups));
}

/** Most files of a submission whose first bytes are read: reading them takes the event loop. */
const mostRead = 1000;

/**
 * Checks that the files are of kinds that the app takes.
 * @throws ServiceError `invalidField` that names each that is not
 */
function checkKinds(
  app: AvailableApp,
  operation: OperationName,
  { groups }: Pick<SubmissionForm, 'groups'>,
): void {
  const spec = operationOf(operation);
  let left = mostRead;
  const startOf = (file: string) => {
    left -= 1;
    return left < 0 ? Buffer.alloc(0) : firstBytes(file, kindBytes);
  };
  const contents = groups
    .get(fieldWithRole(spec, 'paths'))
    ?.map((files) => files.map(({ name, path: file }) => ({ name, start: () => startOf(file) })));
  refuse(app, fileRefusals(app, spec, contents ?? []));
}

/** What the body is, by its type: a form, or JSON that names uploads. @throws ServiceError for any other, and for none */
function bodyType(ctx: RouterContext): string {
  const types = [mediaTypes.form, mediaTypes.json];
  // Null without a body, whatever its type.
  const type = ctx.is(types);
  if (type) return type;
  const stated = types.find((each) => ctx.get('Content-Type').startsWith(each));
  if (type === null && stated !== undefined) {
    const what = stated === mediaTypes.form ? 'a form' : 'JSON';
    throw new ServiceError('badRequest', `The request says that it is ${what}, and has no body`);
  }
  throw new ServiceError('notMultipart', `The body must be ${types.join(', or ')}`);
}

/** The uploads that a submission names. @throws UploadsMissing */
async function takeUploads(names: readonly string[], held: HeldUploads | undefined) {
  if (held) return await held.takeAll(names);
  if (names.length > 0) throw new UploadsMissing([...new Set(names)]);
  return new Map();
}

/** @throws ServiceError `invalidField` about all refusals, if there are any */
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

/**
 * Reuses the directory of the incoming files for the output once it is empty: renaming a directory takes less time than
 * removing one, which blocks the event loop for 8 ms while the disk is busy.
 */
async function becomeOutput(emptied: string, output: string): Promise<void> {
  if (readdirSync(emptied).length === 0) renameSync(emptied, output);
  else await rm(emptied, { recursive: true });
}

/** Reports that the data directory is not writable, which only the admin can change. Returns the error for the client. */
function unwritable(cause: unknown, report: Report): ServiceError {
  report('A submission could not be written to the data directory', cause);
  const detail = 'The server cannot write its data directory, so it takes no jobs: its admin must mend that';
  return new ServiceError('unwritable', detail, { cause });
}

/**
 * Receives one submission. Everything from it is removed unless it becomes a job.
 * @param awaited aborted when a repetition of the submission waits for it
 */
async function receive(
  ctx: RouterContext,
  app: string,
  operation: OperationName,
  asker: Principal,
  idempotencyKey: string | null,
  awaited: AbortSignal,
  deps: SubmitDeps,
): Promise<Job> {
  await using slot = await deps.jobs.reserve(asker, contentLength(ctx));
  const { directory } = slot;
  const spec = operationOf(operation);
  const limits = within(limitsOf(deps.limits, spec), slot.allowed);
  const { turns } = deps;
  const makeRoom = () => deps.jobs.makeRoom();
  await checkSpace(contentLength(ctx), directory.path, limits, makeRoom);
  const type = bodyType(ctx);
  const described = await deps.catalog.available(app, asker.apps);
  askForBody(ctx);

  const incoming = path.join(directory.path, 'Incoming');
  mkdirSync(incoming, { mode: 0o700 });
  const { requireDeidentified } = deps.limits;
  const checks = new EarlyChecks(spec, (fields) => {
    if (requireDeidentified) checkClaim(isDeidentified(spec, fields.values));
    const given = Object.entries(fields.values).filter(([name]) => fields.given.has(name));
    checkApp(described, operation, { ...Object.fromEntries(given), ...fields.options }, null);
    askedOf(operation, fields, asker, deps.jobs);
  });
  const sender = senderOf(ctx);
  using held = deps.uploads?.of(asker.name).hold();
  const received =
    type === mediaTypes.form
      ? await receiveForm(ctx, incoming, limits, checks, {
          awaited,
          refused: sender.refused,
          makeRoom,
          turns,
        })
      : await receiveJson(ctx, spec, limits, checks, { awaited, take: (names) => takeUploads(names, held) });
  slot.allowed.hold(received.bytes);
  // The job gets files of its own.
  if (type === mediaTypes.json) await checkSpace(received.bytes, directory.path, limits, makeRoom);
  const form = readForm(spec, received);
  const counts = [...form.groups].map(([field, groups]) => [field.name, groups.length]);
  checkApp(described, operation, form.values, Object.fromEntries(counts));
  checkKinds(described, operation, form);
  const ask = (by: Principal) => askedOf(operation, form, by, deps.jobs);
  ask(asker);
  const { files, linked, extracted } = await placeFiles(form.groups, directory.input, limits, {
    onExtract: (bytes) => slot.allowed.hold(received.bytes + bytes),
    makeRoom,
    turns,
    mayPostpone: !requireDeidentified,
  });
  if (requireDeidentified) await checkIdentities(directory.input);
  await becomeOutput(incoming, directory.output);
  directory.create();
  // Checked again after all slow steps, so that a token that was revoked in the meantime, or lost the app, gets no job.
  const now = sender.now();
  deps.catalog.get(app, now.apps);
  const asked = ask(now);
  return await slot.accept(
    {
      app,
      operation,
      values: form.values,
      ...asked,
      acceptedOptions: form.acceptedOptions,
      tag: form.tag,
      deidentified: form.deidentified,
      inputs: form.inputs,
      idempotencyKey,
      owner: asker.name,
    },
    {
      files: moved(files, directory.path, slot.finalDirectory.path),
      linked,
      notes: form.ignored.map((name) => `Ignored field ${quoteName(name)}: no operation has it`),
      bytes: received.bytes,
      extracted,
    },
  );
}

/** `POST /apps/{app}/{operation}`: checks in the order of docs/http.md (Submission), answers with the envelope. */
export const submit = (operation: OperationName, deps: SubmitDeps) => async (ctx: RouterContext) => {
  const asker = principalOf(ctx);
  const app = deps.catalog.get(captured(ctx), asker.apps).id;
  const idempotencyKey = ctx.get(parameters.idempotencyKey.name) || null;
  const from = { owner: asker.name, idempotencyKey };
  const job = await deps.jobs.submitOnce(from, (awaited) =>
    receive(ctx, app, operation, asker, idempotencyKey, awaited, deps).catch((cause) => {
      const { refused } = senderOf(ctx);
      if (refused.aborted) throw refused.reason;
      throw isForbidden(cause) || isMissing(cause) ? unwritable(cause, deps.report) : cause;
    }),
  );
  ctx.body = jobEnvelope(job.id, job.request.acceptedOptions);
};
