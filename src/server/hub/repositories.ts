import { formatBytes } from '../../contract/index.js';
import type { HubSettings } from './hub-settings.js';
import { type RepositoryName, TrackedRepository } from './tracked-repository.js';

/** Milliseconds before a repository is checked again. */
const usualIntervals = {
  /** After a successful check. */
  between: 3600_000,
  /** After the first failed check; doubles with each further failure. */
  retry: 30_000,
  maxRetry: 1800_000,
  /** Minimum time between two checks that clients request. */
  asked: 2000,
};

/** Milliseconds between two progress messages of a download, and the size in bytes from which a download is reported. */
const progressInterval = 5000;
const worthTelling = 1e6;

interface RepositoriesOptions {
  readonly settings: HubSettings;
  /** Whether to download whole apps instead of only their descriptions: `serve --download`. */
  readonly download: boolean;
  /** Writes a line for the admin. */
  readonly say: (line: string) => void;
  readonly times?: typeof usualIntervals;
}

const keyOf = ({ repository, revision }: RepositoryName): string => `${repository}@${revision}`;

/**
 * The repositories on the allowlist. They are updated in the background, one after another. Clients are answered from the cache.
 */
export class Repositories {
  readonly #tracked = new Map<string, TrackedRepository>();
  readonly #times: typeof usualIntervals;
  readonly #closing = new AbortController();
  readonly #told = new Map<TrackedRepository, string | null>();
  #timer: NodeJS.Timeout | null = null;
  #round: Promise<void> | null = null;

  constructor(private readonly options: RepositoriesOptions) {
    this.#times = options.times ?? usualIntervals;
  }

  /** Tracks the repository of an app, which is checked from `start` on. */
  track(name: RepositoryName): TrackedRepository {
    const key = keyOf(name);
    const found = this.#tracked.get(key) ?? new TrackedRepository(name, this.options.settings);
    this.#tracked.set(key, found);
    found.folders.add(name.folder);
    return found;
  }

  /** Stops tracking all other repositories, and other apps of the remaining ones. */
  keepOnly(names: readonly RepositoryName[]): void {
    for (const [key, tracked] of this.#tracked) {
      const kept = names.filter((each) => keyOf(each) === key);
      tracked.folders = new Set(kept.map(({ folder }) => folder));
      if (kept.length > 0) continue;
      this.#tracked.delete(key);
      this.#told.delete(tracked);
    }
  }

  /** Fetches everything that is missing, and reports the progress. An unavailable repository is tried again later. */
  async fetchAll(signal: AbortSignal): Promise<void> {
    for (const each of this.#tracked.values()) {
      if (each.due > performance.now() || signal.aborted) continue;
      this.options.say(`${each.label}: looking for it at ${this.options.settings.endpoint}`);
      await this.#check(each, AbortSignal.any([signal, this.#closing.signal]));
    }
  }

  /** Starts the checks of the repositories, each when it is due. */
  start(): void {
    this.#schedule();
  }

  /**
   * Makes checks of all repositories due, but at most once every `usualIntervals.asked` milliseconds, however often clients ask.
   */
  ask(): void {
    for (const each of this.#tracked.values()) {
      if (this.options.settings.isOffline) continue;
      const soon = Math.max(performance.now(), each.begun + this.#times.asked, each.notBefore);
      each.due = Math.min(each.due, soon);
      each.isUnderWay = true;
    }
    this.#schedule();
  }

  /** Whether any repository is being checked, is due, or will be checked because a client has asked. */
  get isUnderWay(): boolean {
    const now = performance.now();
    return [...this.#tracked.values()].some((each) => each.isUnderWay || each.due <= now);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    if (this.#timer) clearTimeout(this.#timer);
    await this.#round;
  }

  #schedule(): void {
    if (this.#timer) clearTimeout(this.#timer);
    if (this.#closing.signal.aborted || this.#round !== null) return;
    const next = Math.min(...[...this.#tracked.values()].map(({ due }) => due));
    if (!Number.isFinite(next)) return;
    this.#timer = setTimeout(
      () => {
        this.#round = this.#checkDue().finally(() => {
          this.#round = null;
          this.#schedule();
        });
      },
      Math.max(0, next - performance.now()),
    ).unref();
  }

  async #checkDue(): Promise<void> {
    for (const each of this.#tracked.values()) {
      if (each.due <= performance.now() && !this.#closing.signal.aborted) {
        await this.#check(each, this.#closing.signal);
      }
    }
  }

  async #check(each: TrackedRepository, signal: AbortSignal): Promise<void> {
    const { between, retry, maxRetry } = this.#times;
    each.isUnderWay = true;
    each.begun = performance.now();
    each.due = Number.POSITIVE_INFINITY;
    const extent = this.options.download ? 'everything' : 'description';
    const wanted = await each.update(extent, signal, this.#teller(each));
    const { problem } = each.hubStatus;
    const wait = problem === null ? between : Math.min(retry * 2 ** (each.failures - 1), maxRetry);
    each.notBefore = performance.now() + wanted * 1000;
    // A client may have asked for a check in the meantime.
    const isAskedAgain = Number.isFinite(each.due);
    each.due = Math.max(isAskedAgain ? each.due : performance.now() + wait, each.notBefore);
    each.isUnderWay = isAskedAgain;
    await this.#tell(each);
  }

  /** Returns a function that reports the progress of a download, at limited intervals. */
  #teller(each: TrackedRepository) {
    let last = Number.NEGATIVE_INFINITY;
    return ({ bytes, total }: { readonly bytes: number; readonly total: number }) => {
      const now = performance.now();
      if (total < worthTelling || now - last < progressInterval) return;
      last = now;
      const percent = Math.floor((100 * bytes) / Math.max(total, 1));
      this.options.say(`${each.label}: ${formatBytes(bytes)} of ${formatBytes(total)} (${percent}%)`);
    };
  }

  /** Reports to the admin what has changed since the last check. */
  async #tell(each: TrackedRepository): Promise<void> {
    const { problem, checkedAt } = each.hubStatus;
    if (this.#closing.signal.aborted || (problem ?? checkedAt) === null) return;
    const commit = each.cache.commitOf(each.revision)?.slice(0, 12);
    const lines =
      problem === null ? [`at commit ${commit} in the cache`, ...(await each.lacks())] : [problem];
    const text = lines.join('\n');
    if (this.#told.get(each) === text) return;
    this.#told.set(each, text);
    for (const line of lines) this.options.say(`${each.label}: ${line}`);
  }
}
