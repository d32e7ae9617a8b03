import { unlinkSync } from 'node:fs';
import path from 'node:path';
import { volumeSuffix } from '../../contract/archives.js';
import { FieldError, ServiceError } from '../../contract/errors.js';
import { quoteName } from '../../contract/quote.js';
import { readBufferCollector } from '../../files/read-buffers.js';
import { TimeSlice } from '../../files/time-slice.js';
import type { DiskWatch } from './disk-room.js';
import type { EarlyChecks } from './early-checks.js';
import { maxFieldBytes, maxFieldName, maxFields, maxFileName, maxFiles } from './form-limits.js';
import type { FormPart, PartReceiver } from './guarded-multipart.js';
import { readPartHeaders } from './part-headers.js';
import type { UploadQuota } from './quota.js';
import type { ReceivedField, ReceivedFile, ReceivedForm } from './received-form.js';
import type { RequestFlow } from './request-flow.js';
import { SyncBehind } from './sync-behind.js';
import { UploadedFile } from './uploaded-file.js';

const strictText = new TextDecoder('utf-8', { fatal: true });

/** @throws ServiceError 400 */
function decodeText(bytes: Buffer, field: string): string {
  try {
    return strictText.decode(bytes);
  } catch {
    throw new ServiceError('badRequest', `Field ${quoteName(field)} is not UTF-8`);
  }
}

/** Files that may still be written while the next one arrives. Each has a descriptor, and up to 1 MiB in memory. */
const mostFinishing = 2;

const tooMany = (what: string, most: number, advice: string) =>
  new ServiceError('uploadTooLarge', `The form has more than ${most} ${what}; ${advice}`);

/** Of all uploads together: they share the young objects. */
const collect = readBufferCollector();

/** Receives the parts of one form: texts into memory, files into `directory` under numbers as names. */
export class FormReceiver implements PartReceiver, ReceivedForm {
  readonly fields: ReceivedField[] = [];
  readonly files: ReceivedFile[] = [];
  bytes = 0;
  /** Rejects with the first error; never resolves. */
  readonly failed: Promise<never>;
  #reject: (cause: unknown) => void = () => {};
  #isOver = false;
  #fieldBytes = 0;
  /** The file that is arriving, and those before it that are still being written. */
  readonly #open = new Set<UploadedFile>();
  readonly #finishing = new Set<Promise<void>>();
  readonly #behind = new SyncBehind((cause) => this.fail(cause));
  readonly #slice = new TimeSlice();

  constructor(
    private readonly directory: string,
    private readonly quota: UploadQuota,
    private readonly disk: DiskWatch,
    private readonly flow: RequestFlow,
    private readonly checks: EarlyChecks,
  ) {
    this.failed = new Promise((_, reject) => {
      this.#reject = reject;
    });
    this.failed.catch(() => {});
  }

  async begin(part: FormPart): Promise<void> {
    if (this.#isOver) return;
    if (this.#finishing.size >= mostFinishing || this.disk.isBehind || this.#slice.isOver)
      await this.#catchUp();
    if (this.#isOver) return;
    const { field, file, size } = readPartHeaders(part.headers);
    if (field.length > maxFieldName)
      throw new FieldError(field, `has a name of more than ${maxFieldName} characters`);
    // A browser sends a field of files without any as a file without a name and content: as a text it counts as absent.
    if (!file) this.#beginField(part, field, file === '');
    else this.#beginFile(part, field, file, size ?? 0);
  }

  /** Pauses the request until what has arrived is dealt with. */
  async #catchUp(): Promise<void> {
    this.flow.hold();
    try {
      await this.#slice.pause();
      if (this.disk.isBehind) await this.disk.settled();
      if (this.#finishing.size >= mostFinishing) await Promise.race(this.#finishing);
    } finally {
      this.flow.release();
    }
  }

  onProgress(received: number, parts: number): void {
    collect(received - this.bytes);
    this.bytes = received;
    this.#guarded(() => this.quota.checkRequest(received, parts));
  }

  fail(cause: unknown): void {
    this.#isOver = true;
    this.#reject(cause);
  }

  #waitFor(file: UploadedFile, finished: Promise<void>): void {
    const finishing = finished
      .catch((cause) => this.fail(cause))
      .finally(() => {
        this.#open.delete(file);
        this.#finishing.delete(finishing);
      });
    this.#finishing.add(finishing);
  }

  /** Resolves when every file is written. */
  async finish(): Promise<void> {
    await Promise.all(this.#finishing);
    await this.#behind.settled();
    await this.disk.settled();
    if (this.#isOver) await this.failed;
  }

  /** Closes open files and removes the files of the form. */
  async abandon(): Promise<void> {
    this.#isOver = true;
    const abandoned = [...this.#open].map((file) => file.abandon());
    await Promise.allSettled([...this.#finishing, ...abandoned]);
    await this.#removeFiles();
  }

  /**
   * Removes the files of a failed form, by the names that it gave them itself. One by one and with pauses: removing a
   * directory of thousands of files in one call blocks the event loop for a second.
   */
  async #removeFiles(): Promise<void> {
    for (const file of this.files) {
      try {
        unlinkSync(file.path);
      } catch {
        // It was never written; or it goes with its directory, whose removal reports what it cannot remove.
      }
      await this.#slice.pause();
    }
  }

  /** Runs a callback of formidable, which would not catch an error. */
  #guarded(work: () => void): void {
    if (this.#isOver) return;
    try {
      work();
    } catch (cause) {
      this.fail(cause);
    }
  }

  #beginField(part: FormPart, name: string, isFile: boolean): void {
    if (this.fields.length >= maxFields) throw tooMany('fields', maxFields, 'send each once');
    const pieces: Buffer[] = [];
    part.on('data', (piece: Buffer) => {
      this.#guarded(() => {
        if (isFile && piece.length > 0) {
          throw new FieldError(name, 'has a file without a name: send its name, or leave the field out');
        }
        this.#fieldBytes += piece.length;
        if (this.#fieldBytes > maxFieldBytes) {
          throw new ServiceError(
            'uploadTooLarge',
            `The texts of the form are longer than ${maxFieldBytes} bytes; send what is long as a file`,
          );
        }
        pieces.push(piece);
      });
    });
    part.on('end', () => {
      this.#guarded(() => {
        this.fields.push({ name, text: decodeText(Buffer.concat(pieces), name) });
      });
    });
  }

  /** @param stated bytes of its content, if they are known */
  #beginFile(part: FormPart, field: string, name: string, stated: number): void {
    if (this.files.length >= maxFiles) {
      throw tooMany('files', maxFiles, `send them as one archive named '<name>${volumeSuffix}'`);
    }
    if (name.length > maxFileName) {
      throw new FieldError(field, `has a file whose name is too long: ${quoteName(name)}`);
    }
    this.checks.beforeFile(field, this.fields);
    this.quota.checkFile(stated, name);
    const target = path.join(this.directory, String(this.files.length));
    this.files.push({ field, name, path: target });
    const file = new UploadedFile(target, this.disk, this.flow, this.#behind, (cause) => this.fail(cause));
    this.#open.add(file);
    let size = 0;
    part.on('data', (piece: Buffer) => {
      this.#guarded(() => {
        size += piece.length;
        this.quota.takeFile(piece.length, size, name);
        file.take(piece);
      });
    });
    part.on('end', () => {
      this.#guarded(() => {
        const finished = file.finish();
        if (finished === null) this.#open.delete(file);
        else this.#waitFor(file, finished);
      });
    });
  }
}
