import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { checkArchive } from '../../invariants.mjs';
import { ended, request } from '../../support/api.mjs';
import { until } from '../../support/until.mjs';

/** Milliseconds in which a start with a few jobs must listen. */
const startBound = 15_000;

/** Whether the server listens in time. */
export async function startsWithin(context, server, what) {
  server.mayEnd = true;
  server.spawn();
  try {
    await server.listening(startBound);
    return true;
  } catch (cause) {
    context.violation(`With ${what} the server does not start: ${cause.message.slice(0, 600)}`);
    await server.kill();
    return false;
  } finally {
    server.mayEnd = false;
  }
}

/** A job that was done has exactly the same result; one that was not continues, once. */
async function checkJob(context, server, expected, what) {
  const { id, state, result } = expected;
  const answer = await request(server, `/jobs/${id}`);
  if (answer.status !== 200) {
    context.violation(`With ${what} the untouched job ${id} (${state}) answers ${answer.status}`);
    return;
  }
  const { status, error } = await ended(server, id, 30_000);
  const end = ['error', 'killed'].includes(state) ? state : 'done';
  context.check(status === end, `With ${what} the untouched job ${id} (${state}) is ${status}: ${error}`);
  if (status !== 'done' || end !== 'done') return;
  const served = await request(server, `/jobs/${id}/result`);
  if (result === undefined) checkArchive(context, expected, served.bytes);
  else {
    const isSame = served.bytes.equals(result);
    context.check(isSame, `With ${what} the untouched job ${id} has another result (${served.status})`);
  }
}

export async function checkUntouched(context, world, server, untouched, what) {
  await Promise.all(untouched.map((each) => checkJob(context, server, each, what)));
  for (const { id, state } of world.jobs) {
    const most = state === 'waiting' ? 1 : 0;
    const begins = world.begins(id);
    context.check(begins <= most, `With ${what} the command of job ${id} (${state}) began ${begins} times`);
  }
}

/** Entries that are set aside are named on stderr; only the cut upload is removed; a damaged job that is served is correct. */
export async function checkForeign(context, world, server, { damaged, strangers, expired }, said, what) {
  for (const each of damaged) {
    const answer = await request(server, `/jobs/${each.id}`);
    if (answer.status !== 200) {
      context.check(
        said.includes(each.id),
        `A ${each.record} ${each.kind} took job ${each.id} from the list, and stderr does not say so`,
      );
      continue;
    }
    if (JSON.parse(answer.text).status !== 'done') continue;
    const { status, bytes, text } = await request(server, `/jobs/${each.id}/result`);
    if (status === 200) checkArchive(context, each, bytes);
    else context.violation(`With ${what} job ${each.id} is done and its result answers ${status}: ${text}`);
  }
  for (const { where, name } of strangers) {
    const isThere = existsSync(path.join(world.data, where, name));
    context.check(
      isThere || said.includes(name),
      `The foreign ${where}/${name} was taken away, and stderr does not say so`,
    );
  }
  await until('the cut upload is removed', () => !existsSync(server.jobDirectory(world.upload)), 10_000);
  if (expired !== null) return;
  const { status } = await request(server, `/jobs/${world.removed}`);
  context.check(status === 410, `With ${what} a job that was removed answers ${status}`);
}

/** The names of the jobs and of what was set aside. */
export const listing = (data) =>
  ['jobs', 'set-aside'].flatMap((name) => {
    const directory = path.join(data, name);
    return existsSync(directory) ? readdirSync(directory).map((each) => `${name}/${each}`) : [];
  });

export function checkListing(context, before, after, what) {
  const gone = before.filter((name) => !after.includes(name));
  const more = after.filter((name) => !before.includes(name));
  context.check(
    gone.length + more.length === 0,
    `After ${what} a second start took away ${gone.join(', ') || 'nothing'} and added ${more.join(', ') || 'nothing'}`,
  );
}
