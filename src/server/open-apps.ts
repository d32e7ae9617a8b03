import { AllowedApps, AppCatalog, residentEngine } from './apps/index.js';
import type { ServerEvents } from './events.js';
import { hubSettings, Repositories } from './hub/index.js';
import type { ServeContext } from './running-server.js';
import type { ServerSettings } from './settings.js';

/** The apps that are allowed, and the repositories that some of them come from. @throws SetupError */
export function openApps(settings: ServerSettings, { say, report }: ServeContext, events: ServerEvents) {
  const apps = new AllowedApps(settings.apps, {
    changed: (change) => events.tell('apps', change),
    failed: report,
  });
  const { download } = settings;
  let hub: ReturnType<typeof hubSettings> | undefined;
  const repositories = new Repositories({
    // Read when an app comes from a repository: what is wrong with them harms no other server.
    get settings() {
      hub ??= hubSettings(process.env);
      return hub;
    },
    download,
    say,
  });
  const { engine, networkApps, residentEngines } = settings;
  const loader =
    residentEngines === null ? null : residentEngine(engine, process.env.PATH ?? '', residentEngines);
  return { catalog: new AppCatalog(apps, engine, repositories, networkApps, loader), repositories };
}
