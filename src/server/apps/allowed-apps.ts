import { monotonicTime } from '../../files/monotonic-time.js';
import {
  type AllowedApp,
  type AppSource,
  appsOf,
  readSources,
  shelfProblems,
  uniqueApps,
} from './allowlist.js';

/** Milliseconds for which what was found is relied on. */
const lookInterval = 1000;

/** Ids of apps that came and went. */
export interface AppChange {
  readonly added: readonly string[];
  readonly removed: readonly string[];
}

export interface AppChanges {
  readonly changed: (change: AppChange) => void;
  /** Told why what was found cannot be used; the apps stay as they were. */
  readonly failed: (problem: string, cause: unknown) => void;
}

/**
 * The apps of `serve --apps`. A directory of app directories is looked at again when somebody asks for an app, at most once
 * a second, so that a new app is found by itself. Everything else is read again by `reload`.
 */
export class AllowedApps {
  #sources: readonly AppSource[];
  #apps: ReadonlyMap<string, AllowedApp>;
  #lastLook = monotonicTime();
  #lastProblem = '';

  /** @throws SetupError that says which source is wrong, or which name is there twice */
  constructor(
    private readonly names: readonly string[],
    private readonly changes: AppChanges,
  ) {
    this.#sources = readSources(names);
    this.#apps = uniqueApps(this.#sources);
    for (const problem of this.#sources.flatMap(shelfProblems)) {
      this.changes.failed('A directory has no app that can be used', problem);
    }
  }

  /** By id. */
  get current(): ReadonlyMap<string, AllowedApp> {
    if (monotonicTime() - this.#lastLook > lookInterval) this.#look();
    return this.#apps;
  }

  /**
   * Reads all sources again.
   * @throws SetupError; the apps then stay as they were
   */
  reload(): void {
    this.#take(readSources(this.names));
  }

  #look(): void {
    this.#lastLook = monotonicTime();
    try {
      this.#take(this.#sources.map((source) => (source.isShelf ? appsOf(source) : source)));
      this.#lastProblem = '';
    } catch (cause) {
      const problem = String(cause);
      if (problem !== this.#lastProblem) this.changes.failed('The apps could not be looked at again', cause);
      this.#lastProblem = problem;
    }
  }

  #take(sources: readonly AppSource[]): void {
    const [before, after] = [this.#apps, uniqueApps(sources)];
    this.#sources = sources;
    this.#apps = after;
    this.#lastLook = monotonicTime();
    const added = [...after.keys()].filter((id) => !before.has(id));
    const removed = [...before.keys()].filter((id) => !after.has(id));
    if (added.length + removed.length > 0) this.changes.changed({ added, removed });
  }
}
