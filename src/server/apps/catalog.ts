import path from 'node:path';
import {
  type AppView,
  type AvailableApp,
  notAvailable,
  quoteName,
  type RefreshView,
  ServiceError,
} from '../../contract/index.js';
import { findProgram, messageOf, orElse } from '../../files/index.js';
import type { Grant, JobAccess, Resident } from '../executors/index.js';
import type { CachedFile, Repositories } from '../hub/index.js';
import type { JobDirectory, JobRequest } from '../jobs/index.js';
import { type AllowedApp, type AllowedApps, checkNamedApps, type NamedApps } from './allowlist.js';
import { lookAtApps } from './app-problems.js';
import { AppVersions, type AskedVersion } from './app-version.js';
import {
  type OwnProgram,
  ownProgram,
  type RepositoryApp,
  repositoryState,
  viewAppDirectory,
  viewRepositoryApp,
} from './app-view.js';
import { commandLine, residentCommandLine } from './command-line.js';
import { ManifestError } from './manifest.js';

/** The engine's exit code when memory has run out, and what a user can do about that. */
const outOfMemoryExit = 75;
const outOfMemoryAdvice =
  'The GPU ran out of memory (exit code 75): ask for less at a time with --patch-size, --max-voxels or --batch-size, ' +
  'or for a GPU with more memory';

/** An id in the form that it has after a proxy has merged slashes. */
const merged = (id: string): string => id.replace(/^\/+/, '').replaceAll(/\/{2,}/g, '/');

/** Ids of the apps that the principal may use; null for all. */
type OwnApps = readonly string[] | null;

const isOwn = (own: OwnApps, id: string): boolean => own === null || own.includes(id);

/** The apps of this server, and how each is run. */
export class AppCatalog {
  readonly #versions = new AppVersions();

  constructor(
    private readonly apps: AllowedApps,
    /** The program for apps without a command of their own: `serve --engine`. */
    private readonly engine: readonly string[],
    private readonly repositories: Repositories,
    /** The environment variables of the server. */
    private readonly environment: NodeJS.ProcessEnv,
    private readonly named: NamedApps = { network: [], 'share-workers': [] },
    /** What keeps the engine loaded between jobs: `serve --engine-resident`; null if nothing does. */
    private readonly residentEngine: readonly string[] | null = null,
  ) {
    checkNamedApps(named, apps.current);
    // Tracks the repositories from the start, so that they are fetched.
    this.#ofRepositories();
  }

  /** The apps of repositories by their ids. */
  #ofRepositories(): ReadonlyMap<string, RepositoryApp> {
    return new Map(
      [...this.apps.current.values()].flatMap((app) => {
        const found = this.#repositoryOf(app);
        return found ? [[app.id, found]] : [];
      }),
    );
  }

  /** The repository of an app; undefined for a directory. */
  #repositoryOf({ repository }: AllowedApp): RepositoryApp | undefined {
    if (repository === null) return undefined;
    return { tracked: this.repositories.track(repository), folder: repository.folder };
  }

  /**
   * Reads the allowlist again, starts checking new repositories, and stops checking those that are no longer allowed.
   * @returns the number of apps
   * @throws SetupError; the apps are then unchanged
   */
  reload(): number {
    this.apps.reload();
    this.#ofRepositories();
    this.repositories.keepOnly([...this.apps.current.values()].flatMap(({ repository }) => repository ?? []));
    this.repositories.start();
    return this.apps.current.size;
  }

  /**
   * What the apps lack, in sentences for the admin.
   * @param ids of the apps; by default all
   */
  async problems(ids?: readonly string[]): Promise<string[]> {
    const asked = [...this.apps.current.values()].filter(({ id }) => ids?.includes(id) ?? true);
    // With `files`, no program is started, because the server is still starting.
    const { apps, engineProblem } = await lookAtApps(asked, this.engine, this.environment, 'files');
    const ofApps = apps.flatMap(({ id, problems, warnings }) => [
      ...problems.map((each) => `app ${quoteName(id)} cannot be run: ${each}`),
      ...warnings.map((each) => `app ${quoteName(id)}: ${each}`),
    ]);
    const unshared = this.named['share-workers'].filter((id) =>
      asked.some((app) => app.id === id && orElse(() => this.#ownProgram(app)?.isShared, true) !== true),
    );
    const ofFlags = unshared.map(
      (id) => `--share-workers ${id} has no effect: its app.json does not have "shared": true`,
    );
    return [...ofApps, ...ofFlags, ...(engineProblem === null ? [] : [engineProblem])];
  }

  /** Ids of the apps that the principal may use. */
  ids(own: OwnApps = null): string[] {
    return [...this.apps.current.keys()].filter((id) => isOwn(own, id));
  }

  /**
   * An app of the allowlist. Proxies merge slashes, so the identifier `/srv/apps/Tiny` may come as `srv/apps/Tiny`.
   * @throws ServiceError `unknownApp` for an app that is not on the allowlist, or not one of the principal's
   */
  get(id: string, own: OwnApps): AllowedApp {
    const { current } = this.apps;
    const app = current.get(id) ?? [...current.values()].find((each) => merged(each.id) === merged(id));
    if (app && isOwn(own, app.id)) return app;
    const others = own === null ? '' : `; this token has ${own.map((each) => quoteName(each)).join(', ')}`;
    throw new ServiceError('unknownApp', `Unknown app ${quoteName(id)}${others}`);
  }

  async view(app: AllowedApp): Promise<AppView> {
    const ofRepository = this.#repositoryOf(app);
    if (!ofRepository) return viewAppDirectory(app.id, app.argument);
    return viewRepositoryApp(app.id, ofRepository);
  }

  /**
   * The version of an app's current files: that of its directory, or the commit that its repository is at in the cache. Null for
   * an app that has no version or is not served.
   */
  async versionOf(id: string): Promise<AskedVersion | null> {
    const app = this.apps.current.get(id);
    if (app?.directory) return await this.#versions.of(app.directory);
    const tracked = app && this.#repositoryOf(app)?.tracked;
    const commit = tracked?.cache.commitOf(tracked.revision) ?? null;
    return commit === null ? null : { known: Promise.resolve(commit), isSnapshot: true };
  }

  /** The description of an app that can run. @throws ServiceError `invalidField` that says why it cannot */
  async available(id: string, own: OwnApps): Promise<AvailableApp> {
    const view = await this.view(this.get(id, own));
    if (view.available) return view;
    throw new ServiceError('invalidField', notAvailable(id, view.reason));
  }

  /** The files of an app of a repository that are on this machine. @throws ServiceError that says why there are none */
  async repositoryFiles(allowed: AllowedApp): Promise<readonly CachedFile[]> {
    const app = this.#repositoryOf(allowed);
    if (!app) return [];
    try {
      return (await app.tracked.files(app.folder)).present;
    } catch (cause) {
      throw new ServiceError('notFound', messageOf(cause), { cause });
    }
  }

  /** Looks for new commits of the repositories in the background. */
  refresh(): void {
    this.repositories.ask();
  }

  async refreshView(own: OwnApps): Promise<RefreshView> {
    const shown = [...this.#ofRepositories()].filter(([id]) => isOwn(own, id));
    const apps = shown.map(([id, app]) => repositoryState(id, app));
    return { refreshing: this.repositories.isUnderWay, apps: await Promise.all(apps) };
  }

  /**
   * The argument list of a job.
   * @throws ServiceError `unknownApp` that says what is wrong if the app's files, or the allowlist, have changed
   */
  commandFor(request: JobRequest, directory: JobDirectory, grant: Grant): string[] {
    const app = this.apps.current.get(request.app);
    if (!app) {
      const detail = `App ${quoteName(request.app)} is no longer on this server's allowlist`;
      throw new ServiceError('unknownApp', detail);
    }
    const program = this.#programOf(app);
    const withFiles = { ...request, files: directory.loadFiles() };
    return commandLine({ program, app: app.argument, request: withFiles, output: directory.output, grant });
  }

  /** The first words of the command line that runs an app. @throws ServiceError `unknownApp` if the app's files cannot be used */
  #programOf(app: AllowedApp): readonly string[] {
    try {
      return this.#ownProgram(app)?.command ?? this.engine;
    } catch (cause) {
      if (!(cause instanceof ManifestError)) throw cause;
      throw new ServiceError('unknownApp', cause.message, { cause });
    }
  }

  /** How a job's app is loaded on these devices; null if the app is started for each job, or cannot be run. */
  residentFor(request: JobRequest, grant: Pick<Grant, 'gpus' | 'cpuSlots'>): Resident | null {
    const app = this.apps.current.get(request.app);
    const program = app && this.#residentProgram(app);
    if (!program) return null;
    const { name, own } = program;
    const loader = own?.command ?? this.residentEngine ?? [];
    const filesOfEngine = () => loader.map((word) => findProgram(word, this.environment.PATH ?? '') ?? word);
    return {
      name,
      command: residentCommandLine(loader, own ? app.argument : null, { request, grant }),
      programWords: (own?.command ?? this.engine).length,
      watched: own ? [app.argument] : filesOfEngine().filter((each) => path.isAbsolute(each)),
      isShared: (own?.isShared ?? false) && this.named['share-workers'].includes(app.id),
      access: () => (own ? this.accessOf(request.app) : this.#engineAccess(this.#hasNetwork(app))),
    };
  }

  /** What a loaded engine may access: it serves either all apps that may use the network or all that may not. */
  #engineAccess(network: boolean): JobAccess {
    const apps = [...this.apps.current.values()].filter(
      (app) => this.#hasNetwork(app) === network && this.#isOfEngine(app),
    );
    const accesses = apps.map(({ id }) => this.accessOf(id));
    return {
      network,
      directories: [...new Set(accesses.flatMap(({ directories }) => directories))].sort(),
      environment: Object.fromEntries(accesses.flatMap(({ environment }) => Object.entries(environment))),
    };
  }

  /**
   * The name under which an app stays loaded: its id, or the engine's program for all apps that the engine runs. Null if the app
   * does not stay loaded.
   */
  residentName(id: string): string | null {
    const app = this.apps.current.get(id);
    return (app && this.#residentProgram(app)?.name) ?? null;
  }

  /** The program that stays loaded for an app, and its name: the app's own program, or the engine if `own` is null. */
  #residentProgram(app: AllowedApp): { readonly name: string; readonly own: OwnProgram | null } | null {
    try {
      const own = this.#ownProgram(app);
      if (own) return own.isResident ? { name: app.id, own } : null;
      return this.residentEngine ? { name: path.basename(this.engine[0] ?? ''), own } : null;
    } catch {
      // What is wrong with the app is reported when the job starts.
      return null;
    }
  }

  /** Whether the admin allows jobs of this app to use the network, in the allowlist or with `serve --network`. */
  #hasNetwork({ id, network }: AllowedApp): boolean {
    return network || this.named.network.includes(id);
  }

  /** Directories of the apps that are on this machine. */
  directories(): string[] {
    return [...this.apps.current.values()].flatMap(({ directory }) => directory ?? []);
  }

  /** The program that runs the app in a directory; empty if none is known. */
  programIn(directory: string): string {
    return orElse(() => (ownProgram(directory)?.command ?? this.engine)[0] ?? '', '');
  }

  /** Ids of the apps in repositories whose jobs may not use the network. */
  offlineRepositories(): string[] {
    const apps = [...this.apps.current.values()];
    return apps.filter((app) => app.repository !== null && !this.#hasNetwork(app)).map(({ id }) => id);
  }

  /**
   * What jobs of this app may access besides their own files: the app's directory, or its repository in the cache, and the
   * network if allowed.
   */
  accessOf(id: string): JobAccess {
    const app = this.apps.current.get(id);
    if (!app) return { network: false, directories: [], environment: {} };
    const network = this.#hasNetwork(app);
    const cache = this.#repositoryOf(app)?.tracked.cache;
    if (cache === undefined) return { network, directories: [app.argument], environment: {} };
    const offline = network ? {} : { HF_HUB_OFFLINE: '1' };
    const environment = { HF_HUB_CACHE: path.dirname(cache.directory), ...offline };
    return { network, directories: [cache.directory, ...cache.sharedBlobs()], environment };
  }

  /** The sentence for an exit code by which the engine reports that memory ran out; null for any other code. */
  explainOutOfMemory(id: string, exitCode: number): string | null {
    const app = this.apps.current.get(id);
    return exitCode === outOfMemoryExit && app && this.#isOfEngine(app) ? outOfMemoryAdvice : null;
  }

  /** Whether the engine runs an app; false if the app's files cannot be read. */
  #isOfEngine(app: AllowedApp): boolean {
    return orElse(() => this.#ownProgram(app) === null, false);
  }

  /** @returns null for an app that the engine runs, as it does every app of a repository: those have no command of their own */
  #ownProgram({ directory }: AllowedApp): OwnProgram | null {
    return directory === null ? null : ownProgram(directory);
  }
}
