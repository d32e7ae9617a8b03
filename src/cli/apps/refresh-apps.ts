import { type Connection, pause, type RefreshAnswer } from '../../client/connection/index.js';
import { HttpError } from '../../client/errors.js';
import type { Reporter } from '../../client/reporter.js';
import { excerpt, oneLine } from '../../contract/index.js';
import { monotonicTime } from '../../files/index.js';

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
  const { refresh } = await import('../../client/connection/index.js');
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
  const { refreshed } = await import('../../client/connection/index.js');
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
