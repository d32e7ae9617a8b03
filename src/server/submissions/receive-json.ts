import type { Context } from 'koa';
import { koaBody } from 'koa-body';
import {
  carriesFiles,
  FieldError,
  groupsField,
  maxJsonBytes,
  type Operation,
  optionsField,
  quoteName,
  ServiceError,
  uploadNamePattern,
  volumeSuffix,
} from '../../contract/index.js';
import { maxFileName, maxFiles, type SubmissionLimits, UploadQuota } from './limits.js';
import type { EarlyChecks, ReceivedField, ReceivedFile, ReceivedForm, WholeUpload } from './read-form.js';
import { checkCodings, wholeRequest } from './receive.js';

/** A file that a submission names. */
interface NamedFile {
  readonly field: string;
  readonly name: string;
  readonly upload: string;
}

const parse = koaBody({
  multipart: false,
  urlencoded: false,
  text: false,
  jsonLimit: maxJsonBytes,
});

/** The body as JSON. @throws ServiceError */
async function readBody(ctx: Context): Promise<Readonly<Record<string, unknown>>> {
  try {
    await parse(ctx, async () => {});
  } catch (cause) {
    const { status, message } = cause as Error & { readonly status?: number };
    if (status === 413) {
      throw new ServiceError('uploadTooLarge', `The submission is larger than ${maxJsonBytes} bytes of JSON`);
    }
    throw new ServiceError('badRequest', `The body is not a JSON object: ${message}`, { cause });
  }
  const body: unknown = ctx.request.body;
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new ServiceError('badRequest', 'The body must be a JSON object');
  }
  return body as Readonly<Record<string, unknown>>;
}

/** The text that a form would have for a value of JSON. @throws FieldError */
function textOf(name: string, value: unknown): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  throw new FieldError(name, 'must be a text, a number, true or false, or a list of these');
}

/** The fields of a form that say the same; `options` is JSON in a form too. @throws FieldError */
function textFields(name: string, value: unknown): ReceivedField[] {
  if (name === optionsField && typeof value === 'object') return [{ name, text: JSON.stringify(value) }];
  return [value].flat().map((each) => ({ name, text: textOf(name, each) }));
}

/** One file of a field. @throws FieldError */
function namedFile(field: string, value: unknown): NamedFile {
  const { upload, name } = Object(value) as { upload?: unknown; name?: unknown };
  if (typeof upload !== 'string' || !uploadNamePattern.test(upload) || typeof name !== 'string') {
    throw new FieldError(
      field,
      'must have files such as {"upload": "<SHA-256 of the content>", "name": "ct.nii.gz"}',
    );
  }
  if (name.length > maxFileName) {
    throw new FieldError(field, `has a file whose name is too long: ${quoteName(name)}`);
  }
  return { field, upload, name };
}

/** What a submission as JSON says, as a form has it, with the names of uploads in place of files. */
interface NamedForm {
  readonly fields: readonly ReceivedField[];
  readonly files: readonly NamedFile[];
}

/** @throws FieldError, ServiceError `uploadTooLarge` */
function readNames(operation: Operation, body: Readonly<Record<string, unknown>>): NamedForm {
  const fields: ReceivedField[] = [];
  const files: NamedFile[] = [];
  for (const [name, value] of Object.entries(body)) {
    // As an empty text in a form.
    if (value === null) continue;
    const field = operation.fields.find((each) => each.name === name && carriesFiles(each));
    if (!field) {
      fields.push(...textFields(name, value));
      continue;
    }
    const items = [value].flat();
    const isGrouped = items.length > 0 && items.every(Array.isArray);
    files.push(...items.flat().map((each) => namedFile(name, each)));
    if (isGrouped) fields.push({ name: groupsField(field), text: items.map(({ length }) => length).join() });
  }
  if (files.length > maxFiles) {
    throw new ServiceError(
      'uploadTooLarge',
      `The submission has more than ${maxFiles} files; send them as one archive named '<name>${volumeSuffix}'`,
    );
  }
  return { fields, files };
}

/** What a submission as JSON needs from its caller. */
export interface JsonContext {
  /** Aborted when a repetition of the request is waiting for it. */
  readonly awaited: AbortSignal;
  /** The uploads of these names. @throws UploadsMissing */
  readonly take: (names: readonly string[]) => Promise<ReadonlyMap<string, WholeUpload>>;
}

/**
 * Reads a submission that names uploads instead of having files. It is checked as a form is whose fields come before its files.
 * @throws ServiceError 400, 408, 409, 413, 415 or 422
 */
export async function receiveJson(
  ctx: Context,
  operation: Operation,
  limits: SubmissionLimits,
  checks: EarlyChecks,
  { awaited, take }: JsonContext,
): Promise<ReceivedForm> {
  checkCodings(ctx);
  const done = new AbortController();
  let body: Readonly<Record<string, unknown>>;
  try {
    [body] = await Promise.all([readBody(ctx), wholeRequest(ctx, done.signal, awaited)]);
  } finally {
    done.abort();
  }
  const { fields, files } = readNames(operation, body);
  for (const { field } of files) checks.beforeFile(field, fields);
  const uploads = await take(files.map(({ upload }) => upload));
  const quota = new UploadQuota(limits);
  let bytes = Number(ctx.get('Content-Length')) || 0;
  const received = files.map(({ field, name, upload }): ReceivedFile => {
    const whole = uploads.get(upload) as WholeUpload;
    quota.takeFile(whole.length, whole.length, name);
    bytes += whole.length;
    return { field, name, path: whole.file, upload: whole };
  });
  return { fields, files: received, bytes };
}
