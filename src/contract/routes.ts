/** Paths of the service, relative to its base address (spec.md, Endpoints). */
export const routes = {
  health: '/health',
  devices: '/available_devices',
  ram: '/ram',
  vram: '/vram',
  apps: '/repo_apps_list',
  app: '/repo_apps',
  appConfig: '/repo_apps_config',
  submit: '/apps',
  jobs: '/jobs',
} as const;

/** `/repo_apps/{app}`; the identifier is percent-encoded whole, so its slashes do not split the path. */
export const appPath = (app: string): string => `${routes.app}/${encodeURIComponent(app)}`;

/** `/repo_apps_config/{app}`. */
export const appConfigPath = (app: string): string => `${routes.appConfig}/${encodeURIComponent(app)}`;

/** `/apps/{app}/{segment}`, where segment is an operation's last path part (`infer`, `fine_tune`, ...). */
export const submitPath = (app: string, segment: string): string =>
  `${routes.submit}/${encodeURIComponent(app)}/${segment}`;

/** `/jobs/{id}`. */
export const jobPath = (id: string): string => `${routes.jobs}/${encodeURIComponent(id)}`;

/** `/jobs/{id}/logs`. */
export const logsPath = (id: string): string => `${jobPath(id)}/logs`;

/** `/jobs/{id}/result`. */
export const resultPath = (id: string): string => `${jobPath(id)}/result`;

/** `/jobs/{id}/kill`. */
export const killPath = (id: string): string => `${jobPath(id)}/kill`;
