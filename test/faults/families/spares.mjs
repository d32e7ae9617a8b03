/**
 * Runners that are ready before a job comes: they are killed and stopped while they wait and at the moment at which a job is
 * handed to them, and so is their server. No job is lost but with the runner that has claimed it, none runs twice, and no
 * process is left.
 */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { isRunning, isSpare, sparesOf } from '../../support/processes.mjs';
import { times } from '../context.mjs';
import { checkDirectories, checkGpus, checkProcesses, checkWitness } from '../invariants.mjs';
import { isFinal, job, logOf } from '../support/api.mjs';
import { Ledger } from '../support/ledger.mjs';
import { Server } from '../support/server.mjs';
import { until } from '../support/until.mjs';

const kept = 3;
const strikesInTenRounds = 120;
/** Milliseconds from a submission to a strike: a job is handed over about ten after it was sent, and runs after thirty. */
const latest = 40;
/** Milliseconds that a runner stays stopped: less and more than its server waits for it. */
const longestStop = 2600;
const lost = /^The runner of this job was killed|exit code 143, SIGTERM/;

function signal(pids, name) {
  for (const pid of pids) if (isRunning(pid)) process.kill(pid, name);
}

/** Whether a process still is what was noted as a spare runner, without a job. */
const waits = (pid) => isRunning(pid) && isSpare(pid);

/** What is done to the runners that wait, or have waited a moment ago, and to their server. Each resolves when it is over. */
const deeds = {
  'spare runners are killed': async ({ pids }) => signal(pids, 'SIGKILL'),
  'spare runners are asked to end': async ({ pids }) => signal(pids.filter(waits), 'SIGTERM'),
  'spare runners are stopped': async ({ pids, context }) => {
    signal(pids, 'SIGSTOP');
    await delay(context.random.integer(0, longestStop));
    signal(pids, 'SIGCONT');
  },
  'the server is killed': async ({ server }) => server.kill(),
  'the server is asked to stop': async ({ server, sent }) => {
    // It refuses what comes then.
    await sent;
    await server.stop();
  },
  'the server and its spare runners are killed': async ({ server, pids }) => {
    await server.kill();
    signal(pids, 'SIGKILL');
  },
  'the server is killed while its spare runners are stopped': async ({ server, pids }) => {
    signal(pids, 'SIGSTOP');
    await server.kill();
    await server.start();
    signal(pids, 'SIGCONT');
  },
};

/** Deeds by which a runner may die that has claimed its job, and end it. */
const mayLose = (deed) => /spare runners are (killed|asked to end)$/.test(deed);
/** A server that is asked to stop kills its jobs, those of earlier strikes as well. */
const mayKill = (deed) => deed === 'the server is asked to stop';

/** Submits some jobs, and strikes at about the time at which they are handed over. */
async function strike(context, server, ledger, deed) {
  const { random } = context;
  context.count(deed);
  // One that is listed as running may still be on its way to a runner that waits.
  const claimed = new Set(
    ledger.open.filter(({ id }) => id !== null && existsSync(path.join(server.jobDirectory(id), 'claimed'))),
  );
  const pids = sparesOf(server.pid);
  const planned = Array.from({ length: random.integer(1, 4) }, () => ledger.plan());
  // One of an earlier strike that has waited until now may be handed to such a runner as well.
  if (mayLose(deed)) for (const each of ledger.open) each.mayBeLost ||= !claimed.has(each);
  if (mayKill(deed)) for (const each of ledger.open) each.isKillAsked = true;
  const sent = Promise.all(planned.map((each) => ledger.submit(server, each)));
  await delay(random.integer(0, latest));
  await deeds[deed]({ context, server, pids, sent });
  await sent;
  if (server.hasEnded) await server.start();
  await until(`no runner waits for a job after '${deed}' whose server is gone`, () =>
    pids.every((pid) => !waits(pid) || sparesOf(server.pid).includes(pid)),
  ).catch((cause) => context.violation(cause.message));
}

/** Takes those off the ledger that were lost with the runner that had claimed them, if they may be. */
async function settleLost(context, server, ledger) {
  for (const planned of ledger.open.filter(({ id, mayBeLost }) => id !== null && mayBeLost)) {
    const view = await job(server, planned.id);
    if (!isFinal(view) || !lost.test(view.error ?? '')) continue;
    context.count('  jobs that are lost with their runner');
    const log = await logOf(server, planned.id);
    context.check(
      log.at(-1) === `__ERROR__ ${view.error}`,
      `The log of job ${planned.id} ends with '${log.at(-1)}'`,
    );
    planned.isVerified = true;
    // It may have begun, and not have come to its end.
    planned.isKillAsked = true;
  }
}

async function calm(context, server, ledger, witness) {
  await ledger.settle(server);
  await until(
    'every accepted job ends',
    async () => {
      await settleLost(context, server, ledger);
      return (await ledger.verify(server)) === 0;
    },
    120_000,
  );
  await ledger.checkKnown(server);
  await checkGpus(context, server);
  await checkDirectories(context, server);
  await checkProcesses(context, server);
  checkWitness(context, witness, ledger.jobs);
  await until('as many runners are ready as are wanted', () => sparesOf(server.pid).length >= kept, 30_000);
}

export async function run(context) {
  const witness = path.join(context.scratch, 'witness');
  const flags = ['--spare-runners', String(kept), '--cpu-slots', '4', '--grace', '600'];
  const server = new Server(context, { gpus: 2, flags });
  const ledger = new Ledger(context, witness);
  const all = Object.keys(deeds);
  let last = [];
  try {
    await server.start();
    for (let left = times(context.rounds, strikesInTenRounds); left > 0; left -= 1) {
      // Some come before a runner is ready.
      await delay(context.random.integer(0, 600));
      const deed = left <= all.length ? all[left - 1] : context.random.pick(all);
      await context.attempt(deed, () => strike(context, server, ledger, deed));
      if (left % 10 === 1) await calm(context, server, ledger, witness);
    }
    last = sparesOf(server.pid);
  } finally {
    context.count('jobs under the strikes', ledger.jobs.length);
    await server.close();
  }
  await until('the spare runners are gone with their server', () => !last.some(isRunning));
}
