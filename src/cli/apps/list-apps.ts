import { type AppAnswer, app, type Connection } from '../../client/connection/index.js';
import { type AppList, excerpt, oneLine } from '../../contract/index.js';
import { wrapped } from '../terminal/format.js';

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
