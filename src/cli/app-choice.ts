import { apps } from '../client/connection/api.js';
import type { Connection } from '../client/connection/connection.js';
import { checkAppId } from '../client/connection/identifiers.js';
import { UsageError } from '../client/errors.js';
import { excerpt } from '../contract/quote.js';

/**
 * The app to run: the one that was named, else the only one that the server has (interface.md, Clients).
 * @throws UsageError listing them where there is a choice, and for a name that no app can have
 */
export async function chooseApp(connection: Connection, named: string | undefined): Promise<string> {
  if (named) return checkAppId(named);
  const list = await apps(connection);
  const [only] = list;
  if (only !== undefined && list.length === 1) return only;
  if (list.length === 0) throw new UsageError(`${connection.server} has no app`);
  throw new UsageError(`Name an app with --app; ${connection.server} has: ${excerpt(list.join(', '))}`);
}
