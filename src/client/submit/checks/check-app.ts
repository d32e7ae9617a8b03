import { notAvailable, refusals } from '../../../contract/app-checks.js';
import { carriesFiles, type FieldValue, flagName } from '../../../contract/fields.js';
import { commandOf } from '../../../contract/operations.js';
import { excerpt, quoteName } from '../../../contract/quote.js';
import { readText } from '../../../contract/values.js';
import type { AvailableAppAnswer, Connection } from '../../connection/index.js';
import { apps, app as describe } from '../../connection/index.js';
import { HttpError, UsageError } from '../../errors.js';
import type { Submission } from '../submission.js';
import { ifItCanSay, patience } from './if-it-can-say.js';

const isNotFound = (error: unknown): error is HttpError => error instanceof HttpError && error.status === 404;

/**
 * Checks a submission against the description of its app, as far as that says anything (interface.md, Apps).
 * @throws UsageError naming the flags as a person types them
 */
function checkDescribed({ operation, fields, options, files }: Submission, app: AvailableAppAnswer): void {
  const values: Record<string, FieldValue> = { ...options };
  for (const field of operation.fields) {
    const value = readText(field, fields[field.name] ?? '');
    if (value !== undefined) values[field.name] = value;
  }
  const groups = Object.fromEntries(files.map(({ field, groups: all }) => [field.name, all.length]));
  const sentences = refusals(app, operation, values, groups).map(({ field, value, problem }) => {
    const says = `the app ${quoteName(app.app)} ${problem}`;
    if (field === null) return `${commandOf(operation.segment)}: ${says}`;
    if (field.kind === 'boolean') return `${says}; leave that out with --no-${flagName(field)}`;
    if (!carriesFiles(field)) return `--${flagName(field)} ${excerpt(value ?? '', 200)}: ${says}`;
    const flag = field.char ? `-${field.char}` : `--${flagName(field)}`;
    return `${says}. The paths without a flag are the first group, and each ${flag} adds one`;
  });
  if (sentences.length === 0) return;
  const message = sentences.join('; ');
  throw new UsageError(message.replace(/^the/, 'The'));
}

/**
 * Checks a submission against what the server says of its app. A server that cannot describe the app may run it all the
 * same.
 * @throws UsageError for what the app does not take, and for an app that is not available; HttpError 404 for an app that the
 * server does not have
 */
export async function checkApp(connection: Connection, submission: Submission): Promise<void> {
  let isMissing = false;
  const view = await ifItCanSay(connection, () =>
    describe(connection, submission.app, patience).catch((error: unknown) => {
      isMissing = isNotFound(error);
      throw error;
    }),
  );
  if (view?.available) checkDescribed(submission, view);
  // KonfAI's server gives no reason: it may only have failed to describe the app.
  else if (view && view.reason !== null) throw new UsageError(notAvailable(submission.app, view.reason));
  if (!isMissing) return;
  // A server may lack the route, too: its list decides.
  const list = await ifItCanSay(connection, () => apps(connection, patience));
  if (list === null || list.includes(submission.app)) return;
  throw new HttpError(404, `Unknown app ${quoteName(submission.app)}`, null);
}
