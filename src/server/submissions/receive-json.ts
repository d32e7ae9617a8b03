import type { Context } from 'koa';
import { koaBody } from 'koa-body';
import {
  carriesFiles,
  FieldError,
  groupsField,
  isObject,
  maxJsonBytes,
  mediaTypes,
  type Operation,
  optionsField,
  ServiceError,
  uploadNamePattern,
} from '../../contract/index.js';
import { checkCodings, contentLength, wholeRequest } from '../http/index.js';
import type { OwnedUploads, Upload } from '../uploads/index.js';
import { UploadsMissing } from '../uploads-missing.js';
import { maxFields, maxFiles, type SubmissionLimits, SubmissionQuota } from './limits.js';
import type { ReceivedField, ReceivedFile, ReceivedForm } from './read-form.js';
import { strictText } from './receive-form.js';

/** A file that a submission names. */
interface NamedFile {
  readonly field: string;
  readonly name: string;
  readonly upload: string;
}

/**
 * Maximum number of times that each punctuation mark of JSON may occur outside texts: a file has at most three commas and two
 * colons.
 */
const maxMarks = 3 * maxFiles + 2 * maxFields;

/**
 * Refuses JSON that would take too long to parse, judged by the number of its punctuation marks outside of strings. Parsing
 * cannot be interrupted, so a few megabytes of names or brackets would keep every other request waiting for seconds.
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

/** Reads the body as a text with one character per byte, so that its marks can be counted before it is parsed. */
const readText = koaBody({
  json: false,
  multipart: false,
  urlencoded: false,
  textTypes: [mediaTypes.json],
  textLimit: maxJsonBytes,
  encoding: 'latin1',
});

/** Reads the body as JSON. @throws ServiceError */
async function readBody(ctx: Context, awaited: AbortSignal): Promise<Readonly<Record<string, unknown>>> {
  const done = new AbortController();
  try {
    await Promise.all([readText(ctx, async () => {}), wholeRequest(ctx, done.signal, awaited)]);
    const bytes = Buffer.from(String(ctx.request.body), 'latin1');
    checkMarks(bytes);
    const body: unknown = JSON.parse(strictText.decode(bytes));
    if (isObject(body)) return body;
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

/** The text that a form would have for a JSON value. @throws FieldError */
function textOf(name: string, value: unknown): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  throw new FieldError(name, 'must be a text, a number, true or false, or a list of these');
}

/** The equivalent text fields of a form. `options` is JSON in a form too. @throws FieldError */
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
    const problem = 'must have files such as {"upload": "<SHA-256 of the content>", "name": "ct.nii.gz"}';
    throw new FieldError(field, problem);
  }
  return { field, upload, name };
}

/** The submission in the shape of a form, with names of uploads in place of files. */
export interface NamedForm {
  readonly fields: readonly ReceivedField[];
  readonly files: readonly NamedFile[];
  /** Size in bytes of the JSON. */
  readonly bytes: number;
  /** The quota, of which part is already used. */
  readonly quota: SubmissionQuota;
}

/**
 * Reads a submission that names uploads instead of having files, within the limits of a form.
 * @param awaited aborted when a repetition of the request is waiting for it
 * @throws ServiceError 400, 408, 413, 415 or 422
 */
export async function readJson(
  ctx: Context,
  operation: Operation,
  limits: SubmissionLimits,
  awaited: AbortSignal,
): Promise<NamedForm> {
  checkCodings(ctx);
  const body = await readBody(ctx, awaited);
  const quota = new SubmissionQuota(limits);
  const fields: ReceivedField[] = [];
  const files: NamedFile[] = [];
  for (const [name, value] of Object.entries(body)) {
    // Null counts as missing, like an empty text in a form.
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
  return { fields, files, bytes: contentLength(ctx) ?? 0, quota };
}

/** The complete uploads that a submission names. Nothing else removes them until this is disposed. */
export class NamedUploads implements Disposable {
  readonly #pinned = new Map<string, Upload>();

  /** @param owned null if the server stores no uploads */
  constructor(private readonly owned: OwnedUploads | null) {}

  async pin({ files }: NamedForm): Promise<void> {
    for (const sha256 of new Set(files.map(({ upload }) => upload))) {
      const upload = await this.owned?.findChecked(sha256).catch(() => null);
      if (!upload?.isComplete) continue;
      upload.pin();
      this.#pinned.set(sha256, upload);
      upload.use();
    }
  }

  /**
   * The form, with the uploads as its files.
   * @throws UploadsMissing with the names for which there is no complete upload; ServiceError `uploadTooLarge`
   */
  fill({ fields, files, bytes, quota }: NamedForm): ReceivedForm {
    const missing = new Set(files.map(({ upload }) => upload).filter((sha256) => !this.#pinned.has(sha256)));
    if (missing.size > 0) throw new UploadsMissing([...missing]);
    let total = bytes;
    const received = files.map(({ field, name, upload }): ReceivedFile => {
      const { file, length } = this.#pinned.get(upload) as Upload;
      quota.addContent(length, length, name);
      total += length;
      return { field, name, path: file, isUpload: true };
    });
    return { fields, files: received, bytes: total };
  }

  /** Removes the uploads, after the submission was refused for what they contain. */
  async removeAll(): Promise<void> {
    await Promise.all([...this.#pinned.values()].map((upload) => this.owned?.remove(upload)));
  }

  [Symbol.dispose](): void {
    for (const upload of this.#pinned.values()) upload.unpin();
  }
}
