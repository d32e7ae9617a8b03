import { statSync } from 'node:fs';
import path from 'node:path';
import {
  type Limits,
  limitsFor,
  readTokens,
  type TokenDocument,
  type TokenEntry,
  TokenFileError,
} from '../../access/index.js';
import { errorCode } from '../../files/index.js';
import type { Report } from '../report.js';
import { SetupError } from '../setup-error.js';

/** Milliseconds between two looks at the file. */
const lookEvery = 1000;

/** Differs when the file was changed, or its owner or mode, or those of its directory. */
function stampOf(file: string): string {
  const stamps = [file, path.dirname(path.resolve(file))].map((each) => {
    try {
      const stats = statSync(each, { bigint: true });
      const { dev, ino, mode, uid } = stats;
      // The times of a directory change with every file in it.
      const times = stats.isDirectory() ? [] : [stats.size, stats.mtimeNs, stats.ctimeNs];
      return [dev, ino, mode, uid, ...times].join(' ');
    } catch (cause) {
      return errorCode(cause);
    }
  });
  return stamps.join('\n');
}

/**
 * The named tokens of a file, which may change while the server runs: it is looked at once a second. One that cannot be used
 * any more is reported, and the tokens stay what they were.
 */
export class NamedTokens {
  #document: TokenDocument;
  /** What the file was like when it was last read. */
  #stamp: string;
  /** Why it cannot be used now, as it was reported; null if it can. */
  #complaint: string | null = null;

  /** @throws SetupError if the file cannot be used */
  constructor(
    private readonly file: string,
    private readonly report: Report,
    /** Called with what the file held before and after each change. */
    private readonly changed: (before: TokenDocument, after: TokenDocument) => void = () => {},
  ) {
    this.#stamp = stampOf(file);
    try {
      this.#document = readTokens(file);
    } catch (cause) {
      if (cause instanceof TokenFileError) {
        throw new SetupError(`${cause.message}; 'remote-app token create' makes a file`, { cause });
      }
      throw cause;
    }
  }

  /** All tokens, revoked ones included. */
  get entries(): readonly TokenEntry[] {
    return this.#document.tokens;
  }

  /** What the owner of that name may have at most; null if there is no such token. */
  limitsOf(name: string): Limits | null {
    const entry = this.entries.find((each) => each.name === name);
    return entry ? limitsFor(entry, this.#document.roles) : null;
  }

  /**
   * Looks at the file now, and from now on: a job may wait for a limit to change.
   * @param looked is called after each look
   */
  follow(signal: AbortSignal, looked: () => void): void {
    this.reload();
    const timer = setInterval(() => {
      this.reload();
      looked();
    }, lookEvery).unref();
    signal.addEventListener('abort', () => clearInterval(timer));
  }

  /** Reads the file again if it has changed. */
  reload(): void {
    const stamp = stampOf(this.file);
    if (stamp === this.#stamp) {
      this.#complaint = null;
      return;
    }
    const before = this.#document;
    try {
      this.#document = readTokens(this.file);
    } catch (cause) {
      this.#complain(cause);
      return;
    }
    // Not before: a read that failed for lack of descriptors is repeated, since a token may have been revoked.
    this.#stamp = stamp;
    this.#complaint = null;
    this.changed(before, this.#document);
  }

  /** Says once why the file cannot be used. */
  #complain(cause: unknown): void {
    const complaint = cause instanceof Error ? cause.message : String(cause);
    if (complaint === this.#complaint) return;
    this.#complaint = complaint;
    const why = cause instanceof TokenFileError ? complaint : cause;
    this.report('The tokens stay as they were read before, until their file is mended', why);
  }
}
