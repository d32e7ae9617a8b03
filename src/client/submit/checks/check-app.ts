import { quoteName } from '../../../contract/quote.js';
import { apps, app as describe } from '../../connection/api.js';
import type { Connection } from '../../connection/connection.js';
import { HttpError } from '../../errors.js';
import type { Submission } from '../submission.js';
import { checkBounds } from './app-bounds.js';
import { ifItCanSay, patience } from './if-it-can-say.js';

const isNotFound = (error: unknown): error is HttpError => error instanceof HttpError && error.status === 404;

/**
 * Checks a submission against what the server says of its app. A server that cannot describe the app may run it all the
 * same.
 * @throws UsageError for a value that the app does not take; HttpError 404 for an app that the server does not have
 */
export async function checkApp(connection: Connection, submission: Submission): Promise<void> {
  let isMissing = false;
  const view = await ifItCanSay(connection, () =>
    describe(connection, submission.app, patience).catch((error: unknown) => {
      isMissing = isNotFound(error);
      throw error;
    }),
  );
  if (view?.available) checkBounds(submission, view);
  if (!isMissing) return;
  // A server may lack the route, too: its list decides.
  const list = await ifItCanSay(connection, () => apps(connection, patience));
  if (list === null || list.includes(submission.app)) return;
  throw new HttpError(404, `Unknown app ${quoteName(submission.app)}`, null);
}
