import { unlinkSync } from 'node:fs';
import path from 'node:path';
import { FieldError, quoteName, ServiceError, volumeSuffix } from '../../contract/index.js';
import { TimeSlice } from '../../files/index.js';
import { type PartReceiver, type PartSink, readPartHeaders } from '../../multipart/index.js';
import type { DiskWatch } from './disk-space.js';
import { maxFieldBytes, maxFieldName, maxFields, maxFileName, maxFiles, type UploadQuota } from './limits.js';
import type { EarlyChecks, ReceivedField, ReceivedFile, ReceivedForm } from './read-form.js';
import { type SyncBehind, UploadedFile } from './uploaded-file.js';

const strictText = new TextDecoder('utf-8', { fatal: true });

/** @throws ServiceError 400 */
function decodeText(bytes: Buffer, field: string): string {
  try {
    return strictText.decode(bytes);
  } catch {
    throw new ServiceError('badRequest', `Field ${quoteName(field)} is not UTF-8`);
  }
}

const tooMany = (what: string, most: number, advice: string) =>
  new ServiceError('uploadTooLarge', `The form has more than ${most} ${what}; ${advice}`);

/** Receives the parts of one form: texts into memory, files into `directory` with numbers as names. */
export class FormReceiver implements PartReceiver, ReceivedForm {
  readonly fields: ReceivedField[] = [];
  readonly files: ReceivedFile[] = [];
  bytes = 0;
  #fieldBytes = 0;
  /** The file that arrives. */
  #arriving: UploadedFile | null = null;
  readonly #slice = new TimeSlice();

  constructor(
    private readonly directory: string,
    private readonly quota: UploadQuota,
    private readonly disk: DiskWatch,
    private readonly behind: SyncBehind,
    private readonly checks: EarlyChecks,
  ) {}

  async begin(headers: Readonly<Record<string, string>>): Promise<PartSink> {
    if (this.disk.isDue) await this.disk.check();
    await this.#slice.pause();
    const { field, file, size } = readPartHeaders(headers);
    if (field.length > maxFieldName)
      throw new FieldError(field, `has a name of more than ${maxFieldName} characters`);
    // If no file is chosen, a browser sends a file field as an empty file without a name. Treated as a text, it counts as
    // absent.
    return file ? this.#beginFile(field, file, size ?? 0) : this.#beginField(field, file === '');
  }

  onProgress(bytes: number, parts: number): void {
    this.bytes = bytes;
    this.quota.checkRequest(bytes, parts);
  }

  /** Closes the file that arrives, and removes the files of the form. */
  async abandon(): Promise<void> {
    await this.#arriving?.abandon();
    await this.#removeFiles();
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
        return undefined;
      },
      end: () => {
        this.fields.push({ name, text: decodeText(Buffer.concat(pieces), name) });
        return undefined;
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
    const file = new UploadedFile(target, this.disk, this.behind);
    this.#arriving = file;
    let size = 0;
    return {
      take: (piece) => {
        size += piece.length;
        this.quota.takeFile(piece.length, size, name);
        return file.take(piece);
      },
      end: () => file.finish(),
    };
  }
}
