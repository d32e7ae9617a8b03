import {
  hashOf,
  type Limits,
  noLimits,
  type Owner,
  type Principal,
  stateOf,
  type TokenEntry,
  theAdmin,
} from '../../access/index.js';
import { ServiceError, wireDetails } from '../../contract/index.js';
import type { NamedTokens } from './named-tokens.js';

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
  review(): void {
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
