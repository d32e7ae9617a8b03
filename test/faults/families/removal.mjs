/** Jobs that are hard or impossible to remove. What can be removed is removed, the rest is reported, and the server goes on. */
import { execFileSync } from 'node:child_process';
import { chownSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { file } from '../../support/form.mjs';
import { times } from '../context.mjs';
import { ended, job, request, steps, submit } from '../support/api.mjs';
import { apps, Server } from '../support/server.mjs';
import { giveAway, unprivileged } from '../support/unprivileged.mjs';
import { until } from '../support/until.mjs';

const encoded = (bytes) => Buffer.from(bytes).toString('base64');

/** Steps of the planter app (`apps/planter`). Names and targets are texts or bytes. */
const step = {
  file: (name, content, base) => ({ do: 'file', base, name: encoded(name), content: encoded(content) }),
  directory: (name, base) => ({ do: 'directory', base, name: encoded(name) }),
  mode: (name, mode, base) => ({ do: 'mode', base, mode, name: encoded(name) }),
  many: (name, count, base) => ({ do: 'many', base, count, name: encoded(name) }),
  abyss: (depth, base) => ({ do: 'abyss', base, depth }),
};

/** Submits a job of the planter that carries out these steps; `home` is a directory that the job may read. */
async function plant(context, server, home, plan, device = { cpu: '1' }) {
  const at = path.join(home, `plan-${context.serial()}.json`);
  writeFileSync(at, JSON.stringify(plan), { mode: 0o644 });
  const form = { inputs: file('scan.nii'), options: steps({ plan: at }), ...device };
  return submit(server, 'planter', 'infer', form);
}

const tree = (base) => [step.directory('closed/sub', base), step.file('closed/sub/file', 'x', base)];
const command = (...words) => execFileSync(words[0], words.slice(1), { stdio: 'ignore' });

const closed = (mode) => ({
  what: `directories of the mode 0${mode.toString(8)}`,
  steps: (base) => [...tree(base), step.mode('closed/sub', mode, base), step.mode('closed', mode, base)],
});

/**
 * What stands in the way of a removal. `steps` are what the job does; where `block` is given, nothing that the
 * server's user may do removes the job's directory until `free`.
 */
function hindrances(rounds) {
  const count = rounds >= 30 ? 100_000 : rounds >= 10 ? 20_000 : 5000;
  const all = [
    closed(0o555),
    closed(0o000),
    { what: 'a path longer than PATH_MAX', steps: (base) => [step.abyss(25, base)] },
    { what: `${count} files`, steps: () => [step.many('many', count, 'workspace')] },
    {
      what: 'a file and a directory of strange names',
      steps: (base) => [step.file('\n', 'x', base), step.directory(Buffer.from([0xff]), base)],
    },
  ];
  if (process.getuid() !== 0) return all;
  return [
    ...all,
    {
      what: 'a mount point',
      steps: (base) => [step.directory('mnt', base)],
      block: (directory) =>
        command('mount', '-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', path.join(directory, 'mnt')),
      free: (directory) => command('umount', path.join(directory, 'mnt')),
    },
    {
      what: 'a directory of another user',
      steps: () => [],
      block: (directory) => {
        const own = path.join(directory, 'own');
        mkdirSync(own);
        writeFileSync(path.join(own, 'file'), 'x');
        chownSync(own, 0, 0);
      },
      free: (directory) => command('rm', '-rf', path.join(directory, 'own')),
    },
    {
      what: 'a file that may not be changed',
      steps: (base) => [step.file('immutable', 'x', base)],
      block: (directory) => command('chattr', '+i', path.join(directory, 'immutable')),
      free: (directory) => command('chattr', '-i', path.join(directory, 'immutable')),
    },
  ];
}

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
async function removalCase(context, user, { what, steps, block, free, isAtStart }) {
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

export async function run(context) {
  const { random, rounds } = context;
  const user = unprivileged(context);
  if (user === null) {
    context.note('LEFT OUT: another user than root cannot be had here, and root removes everything');
    return;
  }
  const all = hindrances(rounds).flatMap((each) => [
    { ...each, isAtStart: false },
    { ...each, isAtStart: true },
  ]);
  // A full run takes all of them, a smaller one these two and some.
  const isNamed = ({ what, isAtStart }) => !isAtStart && /0555|PATH_MAX/.test(what);
  const others = random.shuffle(all.filter((each) => !isNamed(each)));
  const chosen = [...all.filter(isNamed), ...others.slice(0, Math.max(3, times(rounds, others.length)))];
  const lane = async () => {
    for (let next = chosen.shift(); next !== undefined; next = chosen.shift()) {
      const each = next;
      await context.attempt(`The removal of a job with ${each.what}`, () => removalCase(context, user, each));
    }
  };
  await Promise.all([lane(), lane(), lane(), lane()]);
}
