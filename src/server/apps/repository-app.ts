import path from 'node:path';
import type { AppView, RepositoryState } from '../../contract/app-manifest.js';
import { faultWithoutPath } from '../../files/error-code.js';
import { HubError } from '../hub/hub-error.js';
import { hubSettings } from '../hub/hub-settings.js';
import type { RepositoryName } from '../hub/repository-name.js';
import { type RepositoryFiles, TrackedRepository } from '../hub/tracked-repository.js';
import { describeApp } from './app-directory.js';
import { ManifestError, type ManifestFault, readManifest } from './manifest.js';

/** An app of a repository: what the cache has of it. The hub is never asked here. */
export interface RepositoryApp {
  readonly tracked: TrackedRepository;
  readonly folder: string | null;
}

const baseNames = (names: readonly string[]): Set<string> =>
  new Set(names.map((name) => path.posix.basename(name)));

const checkedAt = (tracked: TrackedRepository): string | null =>
  tracked.look.checkedAt?.toISOString() ?? null;

/** The answer of `GET /repo_apps/{id}` for an app of a repository. */
export async function viewRepositoryApp(app: string, { tracked, folder }: RepositoryApp): Promise<AppView> {
  try {
    const { commit, directory, present, listed } = await tracked.files(folder);
    const view = await describeApp(app, readManifest(directory, 'repository'), {
      directory,
      names: baseNames(listed),
      present: baseNames(present.map(({ name }) => name)),
      added: () => [],
    });
    const { repository: name, revision, look } = tracked;
    return {
      ...view,
      repository: { name, revision, commit, checked_at: checkedAt(tracked), problem: look.problem },
    };
  } catch (cause) {
    return { app, available: false, reason: faultWithoutPath(cause) };
  }
}

/** The same in short: whether it is there, and what the last look at the hub came to. */
export async function repositoryState(
  app: string,
  { tracked, folder }: RepositoryApp,
): Promise<RepositoryState> {
  const view = await viewRepositoryApp(app, { tracked, folder });
  return {
    app,
    available: view.available,
    commit: tracked.cache.commitOf(tracked.revision),
    checked_at: checkedAt(tracked),
    problem: view.available ? tracked.look.problem : view.reason,
  };
}

/** The files of an app of a repository that are in the cache. @throws HubError that says why there are none */
export const filesOfRepositoryApp = ({ tracked, folder }: RepositoryApp): Promise<RepositoryFiles> =>
  tracked.files(folder);

/**
 * What a server would say of an app of a repository before it has asked the hub: what is wrong with it, and what it lacks.
 * @throws SetupError for settings that cannot be used
 */
export async function lookInCache(name: RepositoryName): Promise<{
  readonly directory: string;
  readonly faults: readonly ManifestFault[];
  readonly missing: readonly string[];
}> {
  const settings = hubSettings(process.env);
  let directory = settings.cache;
  try {
    ({ directory } = await new TrackedRepository(name, settings).files(name.folder));
    readManifest(directory, 'repository');
    return { directory, faults: [], missing: [] };
  } catch (cause) {
    if (cause instanceof ManifestError) return { directory, faults: cause.faults, missing: [] };
    if (!(cause instanceof HubError)) throw cause;
    const fetched = `it is not in ${settings.cache}; a server fetches it from ${settings.endpoint} when it has started`;
    return { directory, faults: [], missing: [settings.isOffline ? cause.message : fetched] };
  }
}
