import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { file } from '../../../support/form.mjs';
import { ended, job, request, submit } from '../../support/api.mjs';
import { plant } from '../../support/plan.mjs';
import { apps, Server } from '../../support/server.mjs';
import { giveAway } from '../../support/unprivileged.mjs';
import { until } from '../../support/until.mjs';

const grace = 2;
/** Milliseconds in which an expired job must be removed. */
const removalBound = 25_000;

const below = (directory) => {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
};

/** Checks that a start which did not listen has ended: no process, no second server beside it. */
async function checkFailedStart(context, server, second, what, cause) {
  context.violation(
    `With ${what} left by a job the next start does not listen: ${cause.message.slice(0, 400)}`,
  );
  if (server.hasEnded) return;
  context.violation(
    `With ${what} left by a job a failed start neither listens nor ends: ${server.stderr.slice(-300)}`,
  );
  second.mayEnd = true;
  second.spawn();
  await second.listening().then(
    () =>
      context.violation(`With ${what} left by a job a second server comes up on the directory of a first`),
    () => {},
  );
}

async function startsAgain(context, server, second, what) {
  server.mayEnd = true;
  server.spawn();
  const failure = await server.listening().then(
    () => null,
    (cause) => cause,
  );
  if (failure !== null) await checkFailedStart(context, server, second, what, failure);
  else server.mayEnd = false;
  return failure === null;
}

async function works(context, server, what) {
  const id = await submit(server, 'witness', 'infer', { inputs: file('scan.nii'), cpu: '1' });
  const { status, error } = await ended(server, id, 20_000);
  context.check(
    status === 'done',
    `After the removal of a job with ${what} the next job is ${status}: ${error}`,
  );
}

/** Checks that nothing of an expired job is left, or that stderr says that it cannot be removed. */
async function checkRemoved(context, server, id, what, isBlocked) {
  const isGone = () =>
    !existsSync(server.jobDirectory(id)) && below(path.join(server.dataDirectory, 'trash')).length === 0;
  if (isBlocked) {
    const isSaid = () => new RegExp(`${id}.* could not be `).test(server.stderr);
    await until('it is reported', isSaid, removalBound).catch(() =>
      context.violation(
        `A job with ${what} cannot be removed, and stderr does not name it: ${server.stderr.slice(-300)}`,
      ),
    );
  } else {
    await until('it is removed', isGone, removalBound).catch(() =>
      context.violation(`A job with ${what} is not removed: ${server.stderr.slice(-300)}`),
    );
  }
  const { status } = await request(server, `/jobs/${id}`);
  context.check(status === 410, `A job with ${what} answers ${status} when it has expired`);
}

/** A job leaves files that are hard to remove, and expires: while its server runs, or before the next one starts. */
export async function removalCase(context, user, { what, steps, block, free, isAtStart }) {
  context.count(`${what}, at ${isAtStart ? 'a start' : 'expiry'}`);
  const home = path.join(user.home, `removal-${context.serial()}`);
  mkdirSync(home);
  giveAway(home);
  const make = () =>
    new Server(context, {
      apps: [apps.planter, apps.witness],
      dataDirectory: path.join(home, 'data'),
      launcher: user.launcher,
      environment: user.environment,
      flags: ['--grace', String(grace)],
    });
  const [server, second] = [make(), make()];
  let unblock = () => {};
  try {
    await server.start();
    const base = context.random.pick(['output', 'workspace']);
    const id = await plant(context, server, home, steps(base));
    const directory = path.join(server.jobDirectory(id), base === 'output' ? 'Output' : 'Workspace');
    await ended(server, id, 120_000).catch(async () => {
      context.violation(`A job with ${what} does not end: it is ${(await job(server, id)).status}`);
    });
    if (block !== undefined) {
      block(directory);
      unblock = () => {
        unblock = () => {};
        const at = [
          directory,
          ...below(path.join(server.dataDirectory, 'trash')).map((name) =>
            path.join(server.dataDirectory, 'trash', name, path.basename(directory)),
          ),
        ];
        for (const each of at.filter(existsSync)) free(each);
      };
    }
    if (isAtStart) {
      await server.kill();
      await delay(grace * 1000 + 200);
      if (!(await startsAgain(context, server, second, what))) return;
    }
    await checkRemoved(context, server, id, what, block !== undefined);
    await works(context, server, what);
    // The next start finds again what could not be removed.
    await server.kill();
    if (!(await startsAgain(context, server, second, what))) return;
    if (block === undefined) return;
    await server.kill();
    unblock();
    if (!(await startsAgain(context, server, second, what))) return;
    await checkRemoved(context, server, id, `${what}, that is out of the way now`, false);
  } finally {
    await second.kill();
    await server.close();
    unblock();
    // Node cannot remove paths longer than PATH_MAX.
    execFileSync('rm', ['-rf', home]);
  }
}
