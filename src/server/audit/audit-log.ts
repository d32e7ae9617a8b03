import { closeSync, constants, fstatSync, openSync, writeSync } from 'node:fs';
import { quotePath } from '../../contract/quote.js';
import { faultWithoutPath } from '../../files/error-code.js';
import type { Report } from '../report.js';
import { SetupError } from '../setup-error.js';

/** One line: what happened, and about whom and what. It never has a token, nor a name or a sentence that may name files. */
export interface AuditEntry {
  readonly event: 'submission' | 'end' | 'download' | 'kill' | 'removal' | 'drain' | 'refusal' | 'token';
  readonly [fact: string]: string | number | boolean | null | readonly number[] | undefined;
}

function openLog(file: string): number {
  const { O_APPEND, O_CREAT, O_NONBLOCK, O_WRONLY } = constants;
  const descriptor = openSync(file, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK, 0o600);
  if (fstatSync(descriptor).isFile()) return descriptor;
  closeSync(descriptor);
  throw new Error('it is not a regular file');
}

/**
 * A file of JSON lines that is only ever appended to. A disk that is full stops nothing: what cannot be written is counted,
 * said once on the server's log, and the count is written as soon as there is room.
 */
export class AuditLog {
  /** Null once it is closed: the number may be that of another file by then. */
  #descriptor: number | null;
  #lost = 0;
  #isMidLine = false;

  /** @throws SetupError if the file cannot be opened */
  constructor(
    private readonly file: string,
    private readonly report: Report,
  ) {
    try {
      this.#descriptor = openLog(file);
    } catch (cause) {
      throw new SetupError(`The audit log ${quotePath(file)} cannot be written: ${faultWithoutPath(cause)}`, {
        cause,
      });
    }
  }

  /** Writes a line. Never throws. */
  write(entry: AuditEntry): void {
    if (this.#descriptor === null) return;
    if (this.#lost > 0 && this.#append({ event: 'lost', lines: this.#lost })) this.#lost = 0;
    if (this.#lost === 0 && this.#append(entry)) return;
    this.#lost += 1;
  }

  /** Opens the file by its name again, after an admin has given the old one another name. Never throws. */
  reopen(): void {
    try {
      if (this.#descriptor === null) return;
      const next = openLog(this.file);
      closeSync(this.#descriptor);
      this.#descriptor = next;
      this.#isMidLine = false;
    } catch (cause) {
      this.report('The audit log could not be opened again; the file that is open is written on', cause);
    }
  }

  close(): void {
    if (this.#descriptor !== null) closeSync(this.#descriptor);
    this.#descriptor = null;
  }

  /** @returns whether all of the line is written */
  #append(entry: AuditEntry | { readonly event: 'lost'; readonly lines: number }): boolean {
    const descriptor = this.#descriptor;
    if (descriptor === null) return false;
    const text = `${this.#isMidLine ? '\n' : ''}${JSON.stringify({ time: new Date().toISOString(), ...entry })}\n`;
    const bytes = Buffer.from(text);
    let written = 0;
    try {
      while (written < bytes.length) written += writeSync(descriptor, bytes, written);
      this.#isMidLine = false;
      return true;
    } catch (cause) {
      if (written > 0) this.#isMidLine = true;
      if (this.#lost === 0) {
        this.report(
          'The audit log cannot be written; the service goes on, and the lines that are lost are counted',
          cause,
        );
      }
      return false;
    }
  }
}
