import { statSync } from 'node:fs';
import path from 'node:path';
import {
  hashOf,
  type Limits,
  type LimitTable,
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
import { errorCode, messageOf } from '../../files/index.js';
import type { ServerEvents } from '../events.js';
import type { Report } from '../report.js';
import { SetupError } from '../setup-error.js';

/** Milliseconds between two checks of the file. */
const checkInterval = 1000;

/** Changes when the file's content, owner or mode changes, or the owner or mode of its directory. */
function stampOf(file: string): string {
  const stamps = [file, path.dirname(path.resolve(file))].map((each) => {
    try {
      const stats = statSync(each, { bigint: true });
      const { dev, ino, mode, uid } = stats;
      // A directory's times change with every file in it, so they are left out.
      const times = stats.isDirectory() ? [] : [stats.size, stats.mtimeNs, stats.ctimeNs];
      return [dev, ino, mode, uid, ...times].join(' ');
    } catch (cause) {
      return errorCode(cause);
    }
  });
  return stamps.join('\n');
}

/** Reads the tokens for a start. @throws SetupError if the file cannot be used */
export function readTokenFile(file: string): TokenDocument {
  try {
    return readTokens(file);
  } catch (cause) {
    if (!(cause instanceof TokenFileError)) throw cause;
    throw new SetupError(`${cause.message}; 'remote-app token create' makes a file`, { cause });
  }
}

/** What a server is told about tokens. */
interface TokenSettings {
  /** That of the environment; null if there is none. */
  readonly token: string | null;
  /** The file of named tokens; null if there is none. */
  readonly tokensFile: string | null;
  /** Limits of the role `user`, for what the file does not say of it. */
  readonly userLimits: LimitTable;
}

/**
 * The named tokens of a file, which may change while the server runs. The file is checked at each request, and once a
 * second for requests in progress and jobs that wait. If it becomes unusable, that is reported, and the current tokens
 * stay valid.
 */
class NamedTokens {
  #document: TokenDocument;
  /** The state of the file when it was last read. */
  #stamp: string;
  /** Why it cannot be used now, as last reported; null if it can. */
  #complaint: string | null = null;

  /** @throws SetupError if the file cannot be used */
  constructor(
    private readonly file: string,
    private readonly report: Report,
    /** Emits `tokens` at each change, and `tokensMended` when a file that was reported can be used again. */
    private readonly events: ServerEvents,
    /** Limits of the role `user`, for what the file does not say of it. */
    private readonly userLimits: LimitTable,
  ) {
    this.#stamp = stampOf(file);
    this.#document = readTokenFile(file);
  }

  /** All tokens, revoked ones included. */
  get entries(): readonly TokenEntry[] {
    return this.#document.tokens;
  }

  /** The limits of the owner with this name; null if there is no such token. */
  limitsOf(name: string): Limits | null {
    const entry = this.entries.find((each) => each.name === name);
    const { roles } = this.#document;
    return entry ? limitsFor(entry, { ...roles, user: { ...this.userLimits, ...roles.user } }) : null;
  }

  /**
   * Checks the file now and from now on, because a job may wait for a limit to change.
   * @param onCheck called after each check
   */
  follow(signal: AbortSignal, onCheck: () => void): void {
    this.reload();
    const timer = setInterval(() => {
      this.reload();
      onCheck();
    }, checkInterval).unref();
    signal.addEventListener('abort', () => clearInterval(timer));
  }

  /** Reads the file again if it has changed. */
  reload(): void {
    const stamp = stampOf(this.file);
    if (stamp === this.#stamp) {
      this.#noteUsable();
      return;
    }
    const before = this.#document;
    try {
      this.#document = readTokens(this.file);
    } catch (cause) {
      this.#complain(cause);
      return;
    }
    // Set only after a successful read: a read that failed for lack of descriptors must be repeated, since a token may
    // have been revoked.
    this.#stamp = stamp;
    this.#noteUsable();
    this.events.tell('tokens', { before, after: this.#document });
  }

  #noteUsable(): void {
    if (this.#complaint === null) return;
    this.#complaint = null;
    this.events.tell('tokensMended', { tokens: this.entries.length });
  }

  /** Reports once why the file cannot be used. */
  #complain(cause: unknown): void {
    const complaint = messageOf(cause);
    if (complaint === this.#complaint) return;
    this.#complaint = complaint;
    const why = cause instanceof TokenFileError ? complaint : cause;
    this.report('The tokens stay as they were read before, until their file is fixed', why);
  }
}

/** A request in progress. */
interface OngoingRequest {
  readonly token: string;
  readonly sender: Principal;
  /** Called when its answer must stop, possibly more than once; gets the refusal if the token is no longer valid. */
  readonly end: (refusal: ServiceError | null) => void;
}

/**
 * Who may use the server: holders of the environment's token or of a named one; everybody if there is neither. Tokens are
 * looked up by their SHA-256, so the time of a lookup reveals nothing about a token, and a thousand tokens are as fast as
 * one.
 */
export class Access {
  /** By the hashes of the tokens; null for the token of the environment. */
  #known: ReadonlyMap<string, TokenEntry | null> = new Map();
  #entries: readonly TokenEntry[] | null = null;
  readonly #own: string | null;
  readonly #ongoing = new Set<OngoingRequest>();

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
   * Opens the tokens of a server. Changes of the file are emitted as the event `tokens`.
   * @throws SetupError if the file cannot be used
   */
  static open(
    { token, tokensFile, userLimits }: TokenSettings,
    events: ServerEvents,
    report: Report,
  ): Access {
    const named = tokensFile === null ? null : new NamedTokens(tokensFile, report, events, userLimits);
    return new Access(token, named);
  }

  /**
   * Watches the file for changes until the signal is aborted. A request in progress ends when its token is no longer
   * allowed to make it.
   */
  follow(signal: AbortSignal): void {
    this.named?.follow(signal, () => this.#review());
  }

  /** Reads the file again if it has changed. */
  reload(): void {
    this.named?.reload();
  }

  /** Whether no token is required. */
  get isOpen(): boolean {
    return this.#own === null && this.named === null;
  }

  /**
   * The principal of a token.
   * @throws ServiceError `invalidToken` for one that is wrong, was revoked or has expired
   */
  identify(token: string): Principal {
    // Cheap, and a revoked token is refused from the next request on.
    this.named?.reload();
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
    const { name, role, apps = null } = entry;
    return { name, role, limits: this.limitsOf(name), apps };
  }

  /**
   * The current principal of a request that has been in progress for some time.
   * @throws ServiceError `invalidToken` also if the token now belongs to another name
   */
  identifyAgain(token: string, { name }: Principal): Principal {
    const now = this.identify(token);
    if (now.name !== name) throw new ServiceError('invalidToken', wireDetails.invalidToken);
    return now;
  }

  /** Ends a request once its token may no longer make it. @returns a function to call when the request is over */
  watch(token: string, sender: Principal, end: OngoingRequest['end']): () => void {
    // The token of the environment cannot change.
    if (this.named === null) return () => {};
    const request = { token, sender, end };
    this.#ongoing.add(request);
    return () => this.#ongoing.delete(request);
  }

  /** Ends the requests in progress whose tokens were changed or have expired. */
  #review(): void {
    for (const { token, sender, end } of this.#ongoing) {
      try {
        // Which routes need an admin is not known here. The client repeats the request and gets the answer for its new role.
        if (this.identifyAgain(token, sender).role !== 'admin' && sender.role === 'admin') end(null);
      } catch (cause) {
        if (!(cause instanceof ServiceError)) throw cause;
        end(cause);
      }
    }
  }

  /** GPUs that an owner may have at once; null for any number. */
  readonly maxGpus = (owner: Owner) => this.limitsOf(owner).max_gpus?.max ?? null;

  /** Jobs that an owner may have at once; null for any number. */
  readonly maxJobs = (owner: Owner) => this.limitsOf(owner).max_jobs?.max ?? null;

  /** Bytes that an owner may keep; null for any number. */
  readonly maxKept = (owner: Owner) => this.limitsOf(owner).max_kept?.max ?? null;

  /** Everybody whose token has not been revoked, and whoever has the token of the environment or needs none. */
  owners(): Owner[] {
    const entries = (this.named?.entries ?? []).filter((entry) => stateOf(entry) !== 'revoked');
    return [null, ...entries.map(({ name }) => name)];
  }

  /** The current limits of an owner, according to the file. */
  limitsOf(owner: Owner): Limits {
    return (owner === null ? null : this.named?.limitsOf(owner)) ?? noLimits;
  }

  /** Rebuilds the index by hash if the tokens have changed. */
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
