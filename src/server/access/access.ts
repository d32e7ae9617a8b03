import { statSync } from 'node:fs';
import path from 'node:path';
import {
  hashOf,
  type Limits,
  type LimitTable,
  limitsFor,
  noLimits,
  noTokens,
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

/** A text that changes when the content, owner or mode of the file changes, or the owner or mode of its directory. */
function stampOf(file: string): string {
  const stamps = [file, path.dirname(path.resolve(file))].map((each) => {
    try {
      const stats = statSync(each, { bigint: true });
      const { dev, ino, mode, uid } = stats;
      // The times of a directory change with every file in it, so they are left out.
      const times = stats.isDirectory() ? [] : [stats.size, stats.mtimeNs, stats.ctimeNs];
      return [dev, ino, mode, uid, ...times].join(' ');
    } catch (cause) {
      return errorCode(cause);
    }
  });
  return stamps.join('\n');
}

/** Reads the token file at startup. @throws SetupError if the file cannot be used */
export function readTokenFile(file: string): TokenDocument {
  try {
    return readTokens(file);
  } catch (cause) {
    if (!(cause instanceof TokenFileError)) throw cause;
    throw new SetupError(`${cause.message}; 'remote-app token create' makes a file`, { cause });
  }
}

/** The settings of a server that concern tokens. */
interface TokenSettings {
  /** The environment's token; null if there is none. */
  readonly token: string | null;
  /** The file of named tokens; null if there is none. */
  readonly tokensFile: string | null;
  /** Limits of the role `user`, for limits that the token file does not set. */
  readonly userLimits: LimitTable;
}

/** A request in progress. */
interface OngoingRequest {
  readonly token: string;
  readonly sender: Principal;
  /**
   * Called when the answer must stop, possibly more than once; gets the refusal if the token is no longer valid, otherwise null.
   */
  readonly end: (refusal: ServiceError | null) => void;
}

/**
 * Who may use the server: holders of the environment's token or of a named one; everybody if there is neither. Tokens are
 * looked up by their SHA-256, so the time of a lookup reveals nothing about a token, and a thousand tokens are as fast as
 * one.
 *
 * The file of named tokens may change while the server runs. It is checked at each request, and once a second for requests
 * in progress and jobs that wait. If it can no longer be used, the admin is told, and the tokens read before stay valid.
 */
export class Access {
  /** The content of the file; without one there are no named tokens. */
  #document = noTokens;
  /** Tokens by their hashes; null for the environment's token. */
  #known: ReadonlyMap<string, TokenEntry | null> = new Map();
  /** The state of the file when it was last read. */
  #stamp = '';
  /** Why the file cannot be used, as last reported; null if it can. */
  #complaint: string | null = null;
  readonly #ongoing = new Set<OngoingRequest>();

  /**
   * @param events emits `tokens` at each change, and `tokensMended` when a file that was reported can be used again
   * @throws SetupError if the file cannot be used
   */
  constructor(
    private readonly settings: TokenSettings,
    private readonly events: ServerEvents,
    private readonly report: Report,
  ) {
    const { tokensFile } = settings;
    if (tokensFile !== null) {
      this.#stamp = stampOf(tokensFile);
      this.#document = readTokenFile(tokensFile);
    }
    this.#index();
  }

  /**
   * Checks the file now and from now on, until the signal is aborted, because a job may wait for a limit to change. A
   * request in progress ends when its token is no longer allowed to make it.
   */
  follow(signal: AbortSignal): void {
    if (this.settings.tokensFile === null) return;
    this.reload();
    const timer = setInterval(() => {
      this.reload();
      this.#review();
    }, checkInterval).unref();
    signal.addEventListener('abort', () => clearInterval(timer));
  }

  /** Reads the file again if it has changed. */
  reload(): void {
    const { tokensFile } = this.settings;
    if (tokensFile === null) return;
    const stamp = stampOf(tokensFile);
    const before = this.#document;
    if (stamp !== this.#stamp) {
      try {
        this.#document = readTokens(tokensFile);
      } catch (cause) {
        this.#complain(cause);
        return;
      }
      // Set only after a successful read: if a read failed because of too few descriptors, it must be repeated, because a token
      // may have been revoked.
      this.#stamp = stamp;
      this.#index();
    }
    if (this.#complaint !== null)
      this.events.announce('tokensMended', { tokens: this.#document.tokens.length });
    this.#complaint = null;
    if (this.#document !== before) this.events.announce('tokens', { before, after: this.#document });
  }

  /** Reports once why the file cannot be used. */
  #complain(cause: unknown): void {
    const complaint = messageOf(cause);
    if (complaint === this.#complaint) return;
    this.#complaint = complaint;
    const why = cause instanceof TokenFileError ? complaint : cause;
    this.report('The tokens stay as they were read before, until their file is fixed', why);
  }

  /** Whether no token is required. */
  get isOpen(): boolean {
    return this.settings.token === null && this.settings.tokensFile === null;
  }

  /**
   * The principal of a token.
   * @throws ServiceError `invalidToken` for one that is wrong, was revoked or has expired
   */
  identify(token: string): Principal {
    // Cheap enough for every request, and a revoked token is refused from the next request on.
    this.reload();
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
   * @throws ServiceError `invalidToken`, even for a valid token if it now belongs to another name
   */
  identifyAgain(token: string, { name }: Principal): Principal {
    const now = this.identify(token);
    if (now.name !== name) throw new ServiceError('invalidToken', wireDetails.invalidToken);
    return now;
  }

  /** Ends a request as soon as its token may no longer make it. @returns a function to call when the request has ended */
  watch(token: string, sender: Principal, end: OngoingRequest['end']): () => void {
    // The environment's token cannot change.
    if (this.settings.tokensFile === null) return () => {};
    const request = { token, sender, end };
    this.#ongoing.add(request);
    return () => this.#ongoing.delete(request);
  }

  /** Ends the requests in progress whose tokens were changed or have expired. */
  #review(): void {
    for (const { token, sender, end } of this.#ongoing) {
      try {
        // A former admin's request is ended whatever it is for, because the routes that require an admin are not known here. The
        // client repeats it and gets the answer for its new role.
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

  /** All owners whose tokens are not revoked, and null: the environment's token, or everybody if no token is required. */
  owners(): Owner[] {
    const entries = this.#document.tokens.filter((entry) => stateOf(entry) !== 'revoked');
    return [null, ...entries.map(({ name }) => name)];
  }

  /** The current limits of an owner. */
  limitsOf(owner: Owner): Limits {
    const { tokens, roles } = this.#document;
    const entry = tokens.find(({ name }) => name === owner);
    if (!entry) return noLimits;
    return limitsFor(entry, { ...roles, user: { ...this.settings.userLimits, ...roles.user } });
  }

  /** Rebuilds the index by hash. */
  #index(): void {
    const { token } = this.settings;
    const valid = this.#document.tokens.filter((entry) => stateOf(entry) !== 'revoked');
    const named = valid.flatMap((entry) => (entry.hash === null ? [] : [[entry.hash, entry] as const]));
    this.#known = new Map<string, TokenEntry | null>([
      ...named,
      ...(token === null ? [] : [[hashOf(token), null] as const]),
    ]);
  }
}
