import { statSync } from 'node:fs';
import path from 'node:path';
import {
  hashOf,
  type Limits,
  limitsFor,
  noLimits,
  type Owner,
  type Principal,
  readTokens,
  stateOf,
  type TokenDocument,
  type TokenEntry,
  TokenFileError,
  theAdmin,
} from '../../access/index.js';
import { ServiceError, wireDetails } from '../../contract/index.js';
import { errorCode } from '../../files/index.js';
import type { ServerEvents } from '../events.js';
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

/** A request under way. */
interface UnderWay {
  readonly token: string;
  readonly sender: Principal;
  /** Called when its answer must stop, possibly more than once; with the refusal if the token is no longer valid. */
  readonly end: (refusal: ServiceError | null) => void;
}

/**
 * Who may use the server: holders of the environment's token or of a named one; everybody if there is neither. Tokens are
 * found by their SHA-256: how long a search takes says nothing about a token, and a thousand take no longer than one.
 */
export class Access {
  /** By the hashes of the tokens; null for the token of the environment. */
  #known: ReadonlyMap<string, TokenEntry | null> = new Map();
  #entries: readonly TokenEntry[] | null = null;
  readonly #own: string | null;
  readonly #underWay = new Set<UnderWay>();

  /**
   * @param token of the environment; null if there is none
   * @param named null without `--tokens`
   */
  constructor(
    token: string | null,
    private readonly named: NamedTokens | null,
  ) {
    this.#own = token === null ? null : hashOf(token);
    this.#index();
  }

  /**
   * Opens the tokens of a server. Changes of the file are told as the event `tokens`.
   * @throws SetupError if the file cannot be used
   */
  static open(
    { token, tokensFile }: { readonly token: string | null; readonly tokensFile: string | null },
    events: ServerEvents,
    report: Report,
  ): Access {
    if (tokensFile === null) return new Access(token, null);
    const changed = (before: TokenDocument, after: TokenDocument) => events.tell('tokens', { before, after });
    return new Access(token, new NamedTokens(tokensFile, report, changed));
  }

  /** Follows the changes of the file, until the signal. A request under way ends when its token loses its right to it. */
  follow(signal: AbortSignal): void {
    this.named?.follow(signal, () => this.#review());
  }

  /** Reads the file again if it has changed. */
  reload(): void {
    this.named?.reload();
  }

  /** Whether no token is asked for. */
  get isOpen(): boolean {
    return this.#own === null && this.named === null;
  }

  /**
   * Whose token it is.
   * @throws ServiceError `invalidToken` for one that is wrong, was revoked or has expired
   */
  identify(token: string): Principal {
    this.#index();
    const entry = this.#known.get(hashOf(token));
    if (entry === undefined) throw new ServiceError('invalidToken', wireDetails.invalidToken);
    if (entry === null) return theAdmin;
    if (stateOf(entry) === 'expired') {
      throw new ServiceError(
        'invalidToken',
        `${wireDetails.invalidToken}: it expired at ${entry.expires_at}; ask the admin of the server for a new one`,
      );
    }
    return { name: entry.name, role: entry.role, limits: this.limitsOf(entry.name) };
  }

  /**
   * Whose token it is now, of a request that has been under way for some time. The file is looked at first.
   * @throws ServiceError `invalidToken` also where it is now the token of another name
   */
  identifyAgain(token: string, sender: Principal): Principal {
    this.named?.reload();
    return this.#again(token, sender);
  }

  #again(token: string, { name }: Principal): Principal {
    const now = this.identify(token);
    if (now.name !== name) throw new ServiceError('invalidToken', wireDetails.invalidToken);
    return now;
  }

  /** Ends a request when its token may not send it any more. @returns a function to call when the request is over */
  watch(token: string, sender: Principal, end: UnderWay['end']): () => void {
    // The token of the environment stays what it is.
    if (this.named === null) return () => {};
    const request = { token, sender, end };
    this.#underWay.add(request);
    return () => this.#underWay.delete(request);
  }

  /** Looks whether the requests under way may go on: tokens are changed, and they expire. */
  #review(): void {
    for (const { token, sender, end } of this.#underWay) {
      try {
        // What an admin may do depends on the route: a client sends the request again, and is answered by its new role.
        if (this.#again(token, sender).role !== 'admin' && sender.role === 'admin') end(null);
      } catch (cause) {
        if (!(cause instanceof ServiceError)) throw cause;
        end(cause);
      }
    }
  }

  /** GPUs that an owner may have at once; null for any number. */
  readonly mostGpus = (owner: Owner) => this.limitsOf(owner).max_gpus?.most ?? null;

  /** Jobs that an owner may have at once; null for any number. */
  readonly mostJobs = (owner: Owner) => this.limitsOf(owner).max_jobs?.most ?? null;

  /** What an owner may have at most, by the file as it is now. */
  limitsOf(owner: Owner): Limits {
    return (owner === null ? null : this.named?.limitsOf(owner)) ?? noLimits;
  }

  /** Reads the tokens again, if they have changed. */
  #index(): void {
    const entries = this.named?.entries ?? [];
    if (entries === this.#entries) return;
    this.#entries = entries;
    const known = new Map<string, TokenEntry | null>();
    for (const entry of entries) {
      if (entry.hash !== null && stateOf(entry) !== 'revoked') known.set(entry.hash, entry);
    }
    if (this.#own !== null) known.set(this.#own, null);
    this.#known = known;
  }
}
