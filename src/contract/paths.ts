import { routes, submitRoute } from './routes.js';

/** A route's path with its parameter, percent-encoded whole: slashes of an identifier do not split the path. */
const filled = (path: string, parameter: string): string =>
  path.replace(/\{\w+\}/, () => encodeURIComponent(parameter));

export const appPath = (app: string): string => filled(routes.app.path, app);
export const appConfigPath = (app: string): string => filled(routes.appConfig.path, app);
/** @param segment an operation's last path part (`infer`, `fine_tune`, ...) */
export const submitPath = (app: string, segment: string): string => filled(submitRoute(segment), app);
export const jobPath = (id: string): string => filled(routes.job.path, id);
/** The job of a path under `/jobs/{id}`, which contains no escaped character; undefined for another path. */
export const jobIdOf = (path: string): string | undefined => /^\/jobs\/([^/?]+)/.exec(path)?.[1];
export const logsPath = (id: string): string => filled(routes.logs.path, id);
export const logTextPath = (id: string): string => filled(routes.log.path, id);
export const resultPath = (id: string): string => filled(routes.result.path, id);
export const killPath = (id: string): string => filled(routes.kill.path, id);
