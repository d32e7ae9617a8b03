import { once } from 'node:events';
import { type FileHandle, open } from 'node:fs/promises';
import path from 'node:path';
import { finished } from 'node:stream/promises';
import type { Context } from 'koa';
import { FieldError, quoteName, ServiceError } from '../../contract/index.js';
import {
  FormParser,
  type PartReceiver,
  type PartSink,
  readBoundary,
  readPartHeaders,
} from '../../multipart/index.js';
import { checkCodings, wholeRequest } from '../http/index.js';
import { FileWriter, type Reservation, writeFault } from '../uploads/index.js';
import { type SubmissionLimits, SubmissionQuota } from './limits.js';
import type { EarlyChecks, ReceivedField, ReceivedFile, ReceivedForm } from './read-form.js';

export const strictText = new TextDecoder('utf-8', { fatal: true });

/** Decodes a text as UTF-8. @throws ServiceError 400 if that is impossible */
function decodeText(bytes: Buffer, field: string): string {
  try {
    return strictText.decode(bytes);
  } catch {
    throw new ServiceError('badRequest', `Field ${quoteName(field)} is not UTF-8`);
  }
}

/** Number of bytes that an empty file counts as: it takes an inode and perhaps a block of the disk. */
const emptyFile = 4096;

/** Receives the parts of one form: texts into memory, files into `directory` with numbers as names. */
class FormReceiver implements PartReceiver, ReceivedForm {
  readonly fields: ReceivedField[] = [];
  readonly files: ReceivedFile[] = [];
  bytes = 0;
  /** The file that is arriving, from the moment at which it is opened. */
  #arriving: Promise<{ readonly handle: FileHandle; readonly writer: FileWriter }> | null = null;

  constructor(
    private readonly directory: string,
    private readonly quota: SubmissionQuota,
    private readonly space: Reservation,
    private readonly checks: EarlyChecks,
  ) {}

  async begin(headers: Readonly<Record<string, string>>): Promise<PartSink> {
    const { field, file, size } = readPartHeaders(headers);
    // If the user chose no file, a browser sends the file field as an empty file without a name. It counts as a text that is
    // missing.
    return file ? await this.#beginFile(field, file, size ?? 0) : this.#beginField(field, file === '');
  }

  onProgress(bytes: number, parts: number): void {
    this.bytes = bytes;
    this.quota.checkRequest(bytes, parts);
  }

  /** Closes the file that is arriving, also of a form that failed. Never rejects. */
  async close(): Promise<void> {
    const arriving = await this.#arriving?.catch(() => null);
    await arriving?.writer.flushed();
    await arriving?.handle.close().catch(() => {});
    this.#arriving = null;
  }

  #beginField(name: string, isFile: boolean): PartSink {
    this.quota.addField(name);
    const pieces: Buffer[] = [];
    return {
      take: (piece) => {
        if (isFile) {
          throw new FieldError(name, 'has a file without a name: send its name, or leave the field out');
        }
        this.quota.addText(piece.length);
        // Copied, because the piece may be a small slice of a large buffer, which would otherwise stay in memory.
        pieces.push(Buffer.from(piece));
        return undefined;
      },
      end: () => {
        this.fields.push({ name, text: decodeText(Buffer.concat(pieces), name) });
        return undefined;
      },
    };
  }

  /** @param stated bytes of the file's content; 0 if unknown */
  async #beginFile(field: string, name: string, stated: number): Promise<PartSink> {
    this.quota.addFile(field, name);
    this.checks.beforeFile(field, this.fields);
    this.quota.checkFile(stated, name);
    const target = path.join(this.directory, String(this.files.length));
    const { space } = this;
    this.#arriving = open(target, 'wx', 0o600).then((handle) => ({
      handle,
      writer: new FileWriter({ handle, offset: 0, maxLength: Number.POSITIVE_INFINITY, space }),
    }));
    const { writer } = await this.#arriving;
    await space.use(emptyFile);
    this.files.push({ field, name, path: target });
    let size = 0;
    return {
      take: (piece) => {
        size += piece.length;
        this.quota.addContent(piece.length, size, name);
        if (writer.errored) throw writer.errored;
        return writer.write(piece) ? undefined : once(writer, 'drain').then(() => {});
      },
      end: async () => {
        await this.close();
        if (writer.errored) throw writer.errored;
      },
    };
  }
}

/** What receiving a submission needs from the route. */
export interface ReceiveContext {
  readonly limits: SubmissionLimits;
  /** Checks that are made before a file is read. */
  readonly checks: EarlyChecks;
  readonly space: Reservation;
  /** Aborted when a repetition of the request is waiting for it. */
  readonly awaited: AbortSignal;
  /** Aborted when the sender is no longer allowed to send; the reason is the error for the client. */
  readonly refused: AbortSignal;
}

/**
 * Receives a multipart form. Files are written to `directory` as they arrive, with numbers as names.
 * @throws ServiceError 400, 401, 408, 413, 415, 422, 503 or 507, or the system's error; the caller removes the directory
 */
export async function receiveForm(
  ctx: Context,
  directory: string,
  { limits, checks, space, awaited, refused }: ReceiveContext,
): Promise<ReceivedForm> {
  checkCodings(ctx);
  const boundary = readBoundary(ctx.get('Content-Type'));
  const receiver = new FormReceiver(directory, new SubmissionQuota(limits), space, checks);
  const parser = new FormParser(boundary, receiver);
  const done = new AbortController();
  refused.addEventListener('abort', () => parser.destroy(refused.reason), { signal: done.signal });
  try {
    // The form may be complete before the request is; if the request breaks off after that, it is refused too. `pipeline` is not
    // used, because if the parser fails, it would close the connection before the client has an answer.
    const parsed = finished(ctx.req.pipe(parser));
    await Promise.all([parsed, wholeRequest(ctx, done.signal, awaited)]);
    return receiver;
  } catch (cause) {
    ctx.req.unpipe(parser);
    parser.destroy();
    await receiver.close();
    throw writeFault(cause);
  } finally {
    done.abort();
  }
}
