import { apps, type Connection, checkAppId } from '../../client/connection/index.js';
import { HttpError, UsageError } from '../../client/errors.js';
import { excerpt, nearest, quoteName } from '../../contract/index.js';

/**
 * The app to run: the named app, or the only app of the server.
 * @throws UsageError that lists the apps if there are several, and for an invalid app name
 */
export async function chooseApp(connection: Connection, named: string | undefined): Promise<string> {
  if (named) return checkAppId(named);
  const list = await apps(connection);
  const [only] = list;
  if (only !== undefined && list.length === 1) return only;
  if (list.length === 0) throw new UsageError(`${connection.server} has no app`);
  throw new UsageError(`Name an app with --app; ${connection.server} has: ${excerpt(list.join(', '))}`);
}

/** The end of an error about an app that is not in the list: what the user can do. */
function remedy(app: string, list: readonly string[]): string {
  const near = nearest(app, list);
  if (near !== null) return `did you mean ${quoteName(near)}?`;
  return list.length === 0 ? 'the server has no app' : `the server has: ${excerpt(list.join(', '))}`;
}

/** The error for an app that the server lists, but whose name a proxy does not pass on. */
const notPassedOn = (server: string, app: string, status: number): string =>
  `${server} lists the app ${quoteName(app)}, but a proxy in front of it does not pass that name on (HTTP ${status}); ` +
  "its admin can have it passed on as it is: with nginx by 'merge_slashes off' and a 'proxy_pass' without a path";

/** The clause after an app's name that says what named it, if not the command line. */
const namedIn = (place: string | undefined): string => (place === undefined ? '' : `, which ${place} names`);

/** @throws UsageError for an app that the server does not have, with the most similar name as a suggestion */
export async function checkListed(
  connection: Connection,
  app: string,
  namedBy: string | undefined,
): Promise<void> {
  const list = await apps(connection);
  if (list.includes(checkAppId(app))) return;
  throw new UsageError(`Unknown app ${quoteName(app)}${namedIn(namedBy)}; ${remedy(app, list)}`);
}

/**
 * Runs a request about an app. If the server does not know the app, reads the list of apps, so that the error can suggest the
 * most similar name.
 * @param namedBy what named the app, if not the command line
 */
export async function suggestingApp<T>(
  connection: Connection,
  app: string,
  run: () => Promise<T>,
  namedBy?: string,
): Promise<T> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof HttpError) || connection.signal?.aborted) throw error;
    const { status, isOfProxy } = error;
    const isUnknown = status === 404 && /^Unknown app /.test(error.message);
    if (status !== 404 && !(isOfProxy && app.includes('/'))) throw error;
    const list = await apps(connection).catch(() => null);
    if (list?.includes(app) && app.includes('/') && (isOfProxy || isUnknown)) {
      throw new HttpError(status, notPassedOn(connection.server, app, status), null, isOfProxy);
    }
    if (list === null || list.includes(app)) throw error;
    const place = isUnknown ? namedIn(namedBy) : '';
    throw new HttpError(error.status, `${error.message}${place}; ${remedy(app, list)}`, null);
  }
}
