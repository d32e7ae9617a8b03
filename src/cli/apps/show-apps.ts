import {
  type AppAnswer,
  app,
  appList,
  type Connection,
  checkAppId,
  pause,
  type RefreshAnswer,
  refresh,
  refreshed,
} from '../../client/connection/index.js';
import { HttpError, UsageError } from '../../client/errors.js';
import type { Reporter } from '../../client/reporter.js';
import { type AppList, excerpt, oneLine } from '../../contract/index.js';
import { monotonicTime } from '../../files/index.js';
import { columnsOf, wrapped } from '../terminal/index.js';
import { naming } from './app-choice.js';
import { describeApp } from './app-text.js';

/** Most apps that are asked for what they are: each is a request. */
const mostAsked = 50;
/** Seconds that a server has to say what an app is. */
const patience = 5;

/** What an app is, in a line; empty where the server does not tell. */
function about(view: AppAnswer | null): string {
  if (!view) return '';
  if (!view.available) return `not available: ${view.reason ?? 'its files cannot be read'}`;
  const short = view.short_description.trim().replaceAll(/\s+/g, ' ');
  return [view.display_name, short].filter(Boolean).join(': ');
}

/** The apps with what each is, for a person: the identifier alone where the server does not tell. */
export async function listApps(
  connection: Connection,
  { apps: ids, loaded = [] }: AppList,
  columns: number,
): Promise<string[]> {
  const asked = ids.length > mostAsked ? [] : ids;
  const views = await Promise.all(asked.map((id) => app(connection, id, patience).catch(() => null)));
  connection.signal?.throwIfAborted();
  const width = Math.max(0, ...ids.map((id) => oneLine(id).length));
  return ids.flatMap((id, index) => {
    const now = loaded.includes(id) ? 'loaded; ' : '';
    const line = `${oneLine(id).padEnd(width)}  ${now}${excerpt(about(views[index] ?? null), 300)}`.trimEnd();
    return wrapped(line, columns, Math.min(width + 2, 30));
  });
}

/** Milliseconds between two questions whether the server has looked, and how long it is waited for. */
const interval = 500;
const maxWait = 120_000;

function describe({ app, available, commit, problem }: RefreshAnswer['apps'][number]): string {
  const at = commit === null ? '' : ` at commit ${commit.slice(0, 12)}`;
  const what = available ? `available${at}` : 'not available';
  return oneLine(`${app}: ${what}${problem === null ? '' : `: ${excerpt(problem, 500)}`}`);
}

/** A server that lacks the route has nothing that could be refreshed. */
async function ask(connection: Connection): Promise<RefreshAnswer> {
  try {
    return await refresh(connection);
  } catch (error) {
    if (!(error instanceof HttpError && [404, 405].includes(error.status))) throw error;
    const message = `${connection.server} cannot be asked to refresh its apps, as KonfAI's server cannot: restart it instead`;
    throw new HttpError(error.status, message, null);
  }
}

/** Has the server look for new commits of its repositories, and waits until it has. */
export async function refreshApps(
  connection: Connection,
  reporter: Reporter,
): Promise<{ readonly lines: readonly string[]; readonly summary: RefreshAnswer }> {
  const end = monotonicTime() + maxWait;
  let found = await ask(connection);
  try {
    while (found.refreshing && monotonicTime() < end) {
      reporter.waiting('The server looks for new commits');
      await pause(interval, connection.signal);
      found = await refreshed(connection);
    }
  } finally {
    reporter.waiting(null);
  }
  if (found.apps.length === 0) reporter.note(`No app of ${connection.server} comes from a repository`);
  if (found.refreshing) reporter.note('The server still looks; this is what it knows so far');
  return { lines: found.apps.map(describe), summary: found };
}

export type AppsSummary =
  | AppList
  | AppAnswer
  | RefreshAnswer
  | { readonly app: string; readonly config: string; readonly files: number };

interface ShownApps {
  readonly lines: readonly string[];
  readonly summary: AppsSummary;
}

/** Lists the apps, describes one, or downloads the configuration of one to a directory. */
export async function showApps(
  connection: Connection,
  id: string | undefined,
  { config: configDirectory, force }: { readonly config?: string | undefined; readonly force: boolean },
  reporter: Reporter,
): Promise<ShownApps> {
  if (id) checkAppId(id);
  if (configDirectory !== undefined) {
    if (!id) throw new UsageError('Name the app whose configuration you want');
    const { saveAppConfig } = await import('../../client/result/index.js');
    const { output, files } = await naming(connection, id, () =>
      saveAppConfig(connection, id, configDirectory, force, reporter),
    );
    return { lines: [output], summary: { app: id, config: output, files } };
  }
  if (id) {
    const view = await naming(connection, id, () => app(connection, id));
    return { lines: describeApp(view, columnsOf(process.stdout)), summary: view };
  }
  const list = await appList(connection);
  const columns = columnsOf(process.stdout);
  // Scripts read identifiers; a person at a terminal also sees what each app is.
  const lines = columns === undefined ? list.apps.map(oneLine) : await listApps(connection, list, columns);
  return { lines, summary: list };
}
