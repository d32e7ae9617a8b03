import { unlinkSync } from 'node:fs';
import path from 'node:path';
import { FieldError, quoteName, ServiceError, volumeSuffix } from '../../contract/index.js';
import { TimeSlice } from '../../files/index.js';
import type { DiskWatch } from './disk-space.js';
import type { PartReceiver, PartSink } from './form-parser.js';
import { maxFieldBytes, maxFieldName, maxFields, maxFileName, maxFiles, type UploadQuota } from './limits.js';
import { readPartHeaders } from './part-headers.js';
import type { EarlyChecks, ReceivedField, ReceivedFile, ReceivedForm } from './read-form.js';
import { type RequestFlow, SyncBehind, UploadedFile } from './uploaded-file.js';

const strictText = new TextDecoder('utf-8', { fatal: true });

/** @throws ServiceError 400 */
function decodeText(bytes: Buffer, field: string): string {
  try {
    return strictText.decode(bytes);
  } catch {
    throw new ServiceError('badRequest', `Field ${quoteName(field)} is not UTF-8`);
  }
}

/** Files that may still be written while the next one arrives. Each takes a descriptor and up to 1 MiB of memory. */
const maxFinishing = 2;

const tooMany = (what: string, most: number, advice: string) =>
  new ServiceError('uploadTooLarge', `The form has more than ${most} ${what}; ${advice}`);

/** Receives the parts of one form: texts into memory, files into `directory` with numbers as names. */
export class FormReceiver implements PartReceiver, ReceivedForm {
  readonly fields: ReceivedField[] = [];
  readonly files: ReceivedFile[] = [];
  bytes = 0;
  readonly #stop = new AbortController();
  #fieldBytes = 0;
  /** The arriving file, and earlier ones that are still being written. */
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
  ) {}

  async begin(headers: Readonly<Record<string, string>>): Promise<PartSink> {
    this.#checkGoing();
    if (this.#finishing.size >= maxFinishing || this.disk.isBehind || this.#slice.isOver) {
      await this.#catchUp();
      this.#checkGoing();
    }
    const { field, file, size } = readPartHeaders(headers);
    if (field.length > maxFieldName)
      throw new FieldError(field, `has a name of more than ${maxFieldName} characters`);
    // If no file is chosen, a browser sends a file field as an empty file without a name. Treated as a text, it counts as
    // absent.
    return file ? this.#beginFile(field, file, size ?? 0) : this.#beginField(field, file === '');
  }

  onProgress(bytes: number, parts: number): void {
    this.#checkGoing();
    this.bytes = bytes;
    this.quota.checkRequest(bytes, parts);
  }

  /** Ends the form with a disk or request error. */
  fail(cause: unknown): void {
    this.#stop.abort(cause);
  }

  /** Aborted with the first error from outside the parser. */
  get failure(): AbortSignal {
    return this.#stop.signal;
  }

  /** Resolves when every file is written. */
  async finish(): Promise<void> {
    await Promise.all(this.#finishing);
    await this.#behind.settled();
    await this.disk.settled();
    this.#checkGoing();
  }

  /** Closes open files and removes the files of the form. */
  async abandon(): Promise<void> {
    this.#stop.abort();
    const abandoned = [...this.#open].map((file) => file.abandon());
    await Promise.allSettled([...this.#finishing, ...abandoned]);
    await this.#removeFiles();
  }

  #checkGoing(): void {
    this.#stop.signal.throwIfAborted();
  }

  /** Pauses the request until everything that has arrived is processed. */
  async #catchUp(): Promise<void> {
    this.flow.hold();
    try {
      await this.#slice.pause();
      if (this.disk.isBehind) await this.disk.settled();
      if (this.#finishing.size >= maxFinishing) await Promise.race(this.#finishing);
    } finally {
      this.flow.release();
    }
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

  /**
   * Removes the files of a failed form by the names it gave them, one by one and with pauses: removing a directory of
   * thousands of files in one call blocks the event loop for a second.
   */
  async #removeFiles(): Promise<void> {
    for (const file of this.files) {
      try {
        unlinkSync(file.path);
      } catch {
        // It was never written, or it is removed with its directory, which reports what it cannot remove.
      }
      await this.#slice.pause();
    }
  }

  #beginField(name: string, isFile: boolean): PartSink {
    if (this.fields.length >= maxFields) throw tooMany('fields', maxFields, 'send each once');
    const pieces: Buffer[] = [];
    return {
      take: (piece) => {
        if (isFile) {
          throw new FieldError(name, 'has a file without a name: send its name, or leave the field out');
        }
        this.#fieldBytes += piece.length;
        if (this.#fieldBytes > maxFieldBytes) {
          throw new ServiceError(
            'uploadTooLarge',
            `The texts of the form are longer than ${maxFieldBytes} bytes; send what is long as a file`,
          );
        }
        // A copy, because the piece may be a small part of a large buffer, which would stay in memory.
        pieces.push(Buffer.from(piece));
      },
      end: () => {
        this.fields.push({ name, text: decodeText(Buffer.concat(pieces), name) });
      },
    };
  }

  /** @param stated bytes of its content, if they are known */
  #beginFile(field: string, name: string, stated: number): PartSink {
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
    return {
      take: (piece) => {
        this.#checkGoing();
        size += piece.length;
        this.quota.takeFile(piece.length, size, name);
        file.take(piece);
      },
      end: () => {
        this.#checkGoing();
        const finished = file.finish();
        if (finished === null) this.#open.delete(file);
        else this.#waitFor(file, finished);
      },
    };
  }
}
