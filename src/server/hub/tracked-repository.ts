import path from 'node:path';
import { excerpt } from '../../contract/index.js';
import { faultWithoutPath, isSystemError, messageOf } from '../../files/index.js';
import { Hub, type RevisionName } from './hub.js';
import { HubError } from './hub-error.js';
import type { HubSettings } from './hub-settings.js';
import { type CachedFile, RepositoryCache } from './repository-cache.js';
import { filesOfApp } from './tree.js';
import { type Extent, type Progress, update } from './update.js';

/** An app of a repository, in the form of `--apps` and the engine: `owner/name[@revision][:app]`. */
export interface RepositoryName extends RevisionName {
  /** The app's folder; null for an app at the top of the repository. */
  readonly folder: string | null;
}

/** The branch if no revision is given. */
const defaultRevision = 'main';

const form = /^([^/@:]+\/[^/@:]+)(?:@([^:]+))?(?::([^:]+))?$/;

/** Matches the names that the hub allows. They become directory names and arguments of the engine, so none begins with `-`. */
const repositoryPart = /^\w(?:[\w.-]{0,94}\w)?$/;
const revisionPart = /^\w[\w.+-]*$/;
const folderName = /^(?!\.{1,2}$)[\w.][\w.+-]{0,254}$/;

const isRepository = (text: string): boolean =>
  text.split('/').every((part) => repositoryPart.test(part)) && !/--|\.\./.test(text);

/** A branch may have slashes, as in `refs/pr/1`. */
const isRevision = (text: string): boolean =>
  text.length <= 255 && text.split('/').every((part) => revisionPart.test(part)) && !text.includes('..');

/** The app of a repository that a text names; null if it names none. */
export function readRepositoryName(text: string): RepositoryName | null {
  const [, repository = '', revision = defaultRevision, folder = null] = form.exec(text) ?? [];
  if (!isRepository(repository) || !isRevision(revision)) return null;
  return folder === null || folderName.test(folder) ? { repository, revision, folder } : null;
}

/** Files of an app of a repository, as far as they are known. */
export interface RepositoryFiles {
  readonly commit: string;
  /** The app's directory in the snapshot; what it holds may be links. */
  readonly directory: string;
  /** The files that are in the cache. */
  readonly present: readonly CachedFile[];
  /** The paths of all files of the app, whether in the cache or not. */
  readonly listed: readonly string[];
}

/** The result of the last check of the hub. */
export interface HubStatus {
  /** When the hub last answered; null if it never did. */
  readonly checkedAt: Date | null;
  /** Why the hub has not answered since, or what is wrong with the repository; null if nothing is. */
  readonly problem: string | null;
}

/** A message without any path of this machine, because everybody who may use the server can read it. */
function inWords(cause: unknown): string {
  if (cause instanceof HubError) return cause.message;
  if (isSystemError(cause)) return `The cache of repositories cannot be used: ${faultWithoutPath(cause)}`;
  return `The repository could not be updated: ${excerpt(messageOf(cause), 300)}`;
}

/** A repository at a revision, with the apps in it that are on the allowlist. */
export class TrackedRepository {
  readonly repository: string;
  readonly revision: string;
  readonly cache: RepositoryCache;
  /** When the repository is next checked, on the monotonic clock; a past time means now. */
  due = 0;
  /** When the last check began, on the same clock. */
  begun = Number.NEGATIVE_INFINITY;
  /** Imposed by the hub's rate limit: no check happens before this time, even if a client asks for one. */
  notBefore = Number.NEGATIVE_INFINITY;
  isUnderWay = false;
  /** How often the check has failed since the hub last answered. */
  failures = 0;
  hubStatus: HubStatus = { checkedAt: null, problem: null };
  /** The folders of its apps on the allowlist. */
  folders = new Set<string | null>();

  constructor(
    name: RevisionName,
    private readonly settings: HubSettings,
  ) {
    this.repository = name.repository;
    this.revision = name.revision;
    this.cache = new RepositoryCache(settings.cache, name.repository);
    if (settings.isOffline) this.due = Number.POSITIVE_INFINITY;
  }

  /** The repository's name for a person, without the revision if that is the default. */
  get label(): string {
    return this.revision === defaultRevision ? this.repository : `${this.repository}@${this.revision}`;
  }

  /**
   * Asks the hub for the commit, and downloads what is missing.
   * @returns seconds until the hub accepts requests again, from its `Retry-After`; 0 without one
   */
  async update(
    extent: Extent,
    signal: AbortSignal,
    onProgress?: (progress: Progress) => void,
  ): Promise<number> {
    const { cache } = this;
    try {
      await update(this, {
        hub: new Hub(this.settings),
        cache,
        folders: [...this.folders],
        extent,
        signal,
        ...(onProgress ? { onProgress } : {}),
      });
      this.failures = 0;
      this.hubStatus = { checkedAt: new Date(), problem: null };
      return 0;
    } catch (cause) {
      if (signal.aborted) return 0;
      this.failures += 1;
      this.hubStatus = { ...this.hubStatus, problem: inWords(cause) };
      return cause instanceof HubError ? cause.retryAfter : 0;
    }
  }

  /**
   * The files of an app, from the cache only.
   * @throws HubError that says why they are missing
   */
  async files(folder: string | null): Promise<RepositoryFiles> {
    const commit = this.cache.commitOf(this.revision);
    const present = commit === null ? [] : await this.cache.files(commit, folder);
    if (commit === null || !present.some(({ name }) => name === 'app.json')) {
      throw new HubError(this.#whyMissing(commit, folder));
    }
    const tree = this.cache.tree(commit) ?? [];
    const names = new Set([...present.map(({ name }) => name), ...filesOfApp(tree, folder).keys()]);
    const directory = path.join(this.cache.snapshot(commit), folder ?? '');
    return { commit, directory, present, listed: [...names].sort() };
  }

  /** Sentences about the apps that are on the allowlist but not in this repository. */
  async lacks(): Promise<string[]> {
    const wanted = [...this.folders].map((folder) => this.files(folder).then(() => null, inWords));
    return (await Promise.all(wanted)).filter((each) => each !== null);
  }

  #whyMissing(commit: string | null, folder: string | null): string {
    const { endpoint, isOffline } = this.settings;
    const { problem } = this.hubStatus;
    if (problem !== null) return problem;
    const apps = commit === null ? [] : this.#appsAt(commit);
    if (commit !== null && this.cache.tree(commit) !== null && !apps.includes(folder)) {
      const named = apps.map((each) => `${this.label}${each === null ? '' : `:${each}`}`).join(', ');
      const where = folder === null ? 'at its top' : `in '${folder}'`;
      return `Repository '${this.label}' has no app ${where}; it has: ${excerpt(named || 'none', 500)}`;
    }
    if (isOffline)
      return `'${this.label}' is not in the cache, and HF_HUB_OFFLINE keeps it from being fetched`;
    return `The description of '${this.label}' is being fetched from ${endpoint}; ask again in a moment`;
  }

  /** The folders of a commit that contain an app; null for the top. */
  #appsAt(commit: string): (string | null)[] {
    const tree = this.cache.tree(commit) ?? [];
    return tree.flatMap(({ path: file }) => {
      const [first = '', second, ...more] = file.split('/');
      if (first === 'app.json' && second === undefined) return [null];
      return second === 'app.json' && more.length === 0 ? [first] : [];
    });
  }
}
