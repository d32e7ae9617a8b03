import type { Context } from 'koa';
import { koaBody } from 'koa-body';
import {
  carriesFiles,
  FieldError,
  groupsField,
  maxJsonBytes,
  mediaTypes,
  type Operation,
  optionsField,
  ServiceError,
  uploadNamePattern,
} from '../../contract/index.js';
import { checkCodings, contentLength, wholeRequest } from '../http/index.js';
import type { HeldUploads } from '../uploads/index.js';
import { UploadsMissing } from '../uploads-missing.js';
import { maxFields, maxFiles, SubmissionQuota } from './limits.js';
import type { ReceivedField, ReceivedFile, ReceivedForm } from './read-form.js';
import { type ReceiveContext, strictText } from './receive-form.js';

/** A file that a submission names. */
interface NamedFile {
  readonly field: string;
  readonly name: string;
  readonly upload: string;
}

/** Times that each mark of JSON may occur outside of texts: a file has three commas and two colons at most. */
const maxMarks = 3 * maxFiles + 2 * maxFields;

/**
 * Counts the marks of JSON. Parsing takes much longer than reading: megabytes of names or brackets keep everybody else waiting for
 * seconds.
 * @throws ServiceError `uploadTooLarge`
 */
function checkMarks(bytes: Buffer): void {
  const counts = new Map([...'{[:,'].map((mark) => [mark.charCodeAt(0), 0]));
  const [quote, backslash] = [0x22, 0x5c];
  let isText = false;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] as number;
    if (byte === quote) isText = !isText;
    else if (isText && byte === backslash) at += 1;
    const count = isText ? undefined : counts.get(byte);
    if (count === undefined) continue;
    counts.set(byte, count + 1);
    if (count < maxMarks) continue;
    const detail = `The submission has more than ${maxMarks} names, values or lists; send many files as one archive`;
    throw new ServiceError('uploadTooLarge', detail);
  }
}

/** Reads JSON as text, in which each character is a byte, so that it can be counted before it is parsed. */
const readText = koaBody({
  json: false,
  multipart: false,
  urlencoded: false,
  textTypes: [mediaTypes.json],
  textLimit: maxJsonBytes,
  encoding: 'latin1',
});

/** The body as JSON. @throws ServiceError */
async function readBody(ctx: Context, awaited: AbortSignal): Promise<Readonly<Record<string, unknown>>> {
  const done = new AbortController();
  try {
    await Promise.all([readText(ctx, async () => {}), wholeRequest(ctx, done.signal, awaited)]);
    const bytes = Buffer.from(String(ctx.request.body), 'latin1');
    checkMarks(bytes);
    const body: unknown = JSON.parse(strictText.decode(bytes));
    if (typeof body === 'object' && body !== null && !Array.isArray(body))
      return body as Readonly<Record<string, unknown>>;
  } catch (cause) {
    if (cause instanceof ServiceError) throw cause;
    const { status, message } = cause as Error & { readonly status?: number };
    if (status === 413)
      throw new ServiceError('uploadTooLarge', `The submission is larger than ${maxJsonBytes} bytes of JSON`);
    throw new ServiceError('badRequest', `The body is not a JSON object: ${message}`, { cause });
  } finally {
    done.abort();
  }
  throw new ServiceError('badRequest', 'The body must be a JSON object');
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
  const body = await readBody(ctx, awaited);
  const quota = new SubmissionQuota(limits);
  const { fields, files } = readNames(operation, body, quota);
  const names = files.map(({ upload }) => upload);
  try {
    for (const { field } of files) checks.beforeFile(field, fields);
  } catch (cause) {
    // The caller removes what is refused because it is not claimed to be de-identified.
    if (cause instanceof ServiceError && cause.code === 'notDeidentified')
      await held?.takeAll(names).catch(() => {});
    throw cause;
  }
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
