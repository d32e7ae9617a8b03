import type { Context } from 'koa';
import { koaBody } from 'koa-body';
import {
  carriesFiles,
  FieldError,
  groupsField,
  maxJsonBytes,
  type Operation,
  optionsField,
  ServiceError,
  UploadsMissing,
  uploadNamePattern,
} from '../../contract/index.js';
import { checkCodings, contentLength, wholeRequest } from '../http/index.js';
import type { HeldUploads } from '../uploads/index.js';
import { SubmissionQuota } from './limits.js';
import type { ReceivedField, ReceivedFile, ReceivedForm } from './read-form.js';
import type { ReceiveContext } from './receive-form.js';

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

/** The fields of a form that say the same. `options` is JSON in a form too. @throws FieldError */
function textFields(name: string, value: unknown): ReceivedField[] {
  if (name !== optionsField || typeof value !== 'object') {
    return [value].flat().map((each) => ({ name, text: textOf(name, each) }));
  }
  try {
    return [{ name, text: JSON.stringify(value) }];
  } catch {
    throw new FieldError(name, 'is nested too deeply');
  }
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
  return { field, upload, name };
}

/** The same submission as it would be in a form, with names of uploads in place of files. */
interface NamedForm {
  readonly fields: readonly ReceivedField[];
  readonly files: readonly NamedFile[];
}

/** @throws FieldError, ServiceError `uploadTooLarge` */
function readNames(
  operation: Operation,
  body: Readonly<Record<string, unknown>>,
  quota: SubmissionQuota,
): NamedForm {
  const fields: ReceivedField[] = [];
  const files: NamedFile[] = [];
  for (const [name, value] of Object.entries(body)) {
    // As an empty text in a form.
    if (value === null) continue;
    const field = operation.fields.find((each) => each.name === name && carriesFiles(each));
    if (!field) {
      for (const text of textFields(name, value)) {
        quota.addField(name);
        quota.addText(Buffer.byteLength(text.text));
        fields.push(text);
      }
      continue;
    }
    const items = [value].flat();
    const isGrouped = items.length > 0 && items.every(Array.isArray);
    for (const item of items.flat()) {
      const file = namedFile(name, item);
      quota.addFile(name, file.name);
      files.push(file);
    }
    if (isGrouped) fields.push({ name: groupsField(field), text: items.map(({ length }) => length).join() });
  }
  return { fields, files };
}

/**
 * Reads a submission that names uploads instead of having files. It gets the checks and limits of a form whose fields come
 * before its files.
 * @param held null if the server keeps no uploads
 * @throws ServiceError 400, 408, 409, 413, 415 or 422
 */
export async function receiveJson(
  ctx: Context,
  operation: Operation,
  held: HeldUploads | null,
  { limits, checks, awaited }: ReceiveContext,
): Promise<ReceivedForm> {
  checkCodings(ctx);
  const done = new AbortController();
  let body: Readonly<Record<string, unknown>>;
  try {
    [body] = await Promise.all([readBody(ctx), wholeRequest(ctx, done.signal, awaited)]);
  } finally {
    done.abort();
  }
  const quota = new SubmissionQuota(limits);
  const { fields, files } = readNames(operation, body, quota);
  for (const { field } of files) checks.beforeFile(field, fields);
  const names = files.map(({ upload }) => upload);
  if (!held && names.length > 0) throw new UploadsMissing([...new Set(names)]);
  const uploads = await held?.takeAll(names);
  let bytes = contentLength(ctx) ?? 0;
  const received: ReceivedFile[] = [];
  for (const { field, name, upload: sha256 } of files) {
    const upload = uploads?.get(sha256);
    if (!upload) throw new UploadsMissing([sha256]);
    quota.addContent(upload.length, upload.length, name);
    bytes += upload.length;
    received.push({ field, name, path: upload.file, isUpload: true });
  }
  return { fields, files: received, bytes };
}
