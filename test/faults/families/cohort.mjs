/**
 * A cohort of many cases, whose client is killed three times and whose server once: each good case is computed once and has its
 * whole result, and each bad one is named with its reason.
 */
import { existsSync, readdirSync, rmSync, symlinkSync, truncateSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../../support/ports.mjs';
import { times } from '../context.mjs';
import { remoteApp, startRemoteApp } from '../support/client.mjs';
import { Server } from '../support/server.mjs';
import { until, within } from '../support/until.mjs';
import { Study } from './cohort/study.mjs';

/** Milliseconds in which a cohort must end once nothing is killed any more. */
const bound = 180_000;

/** Bad scans by how they begin, and the reason that has to be told of each. An empty one, and one that was not fetched, are not sent. */
const bad = {
  'scan of a knee': /^Subprocess failed \(exit code 3\): This scan is not a head$/,
  'scan too large': /: The model is out of memory$/,
  'letter to the radiologist': /^Subprocess failed \(exit code 4\): This is not a scan$/,
  empty: /is empty \(0 bytes\)$/,
  annexed: /has no content on this machine, since git-annex did not fetch it/,
};

/** A tree of which one scan in twenty is bad. */
function makeStudy(context) {
  const { random, rounds } = context;
  const study = new Study(context);
  const count = Math.min(200, Math.max(20, times(rounds, 200)));
  const numbers = random.shuffle(Array.from({ length: count }, (_, at) => at + 1));
  const kinds = random.shuffle(Object.keys(bad));
  const reasons = new Map();
  for (const [at, number] of numbers.entries()) {
    const kind = at < count / 20 ? kinds[at % kinds.length] : 'scan';
    const name = study.add(number, `${kind} ${number} ${random.word(random.integer(1, 200))}`);
    if (kind === 'empty') truncateSync(study.pathOf(name));
    if (kind === 'annexed') {
      rmSync(study.pathOf(name));
      symlinkSync('../../.git/annex/objects/scan', study.pathOf(name));
    }
    if (kind !== 'scan') reasons.set(name, bad[kind]);
    context.count(kind === 'scan' ? 'good cases of a cohort' : 'bad cases of a cohort');
  }
  return { study, reasons };
}

/** Gives the command, and again after each of its deaths, until it ends by itself. */
async function runUnderDeaths(context, server, study) {
  const { random } = context;
  const deaths = random.shuffle(['client', 'client', 'client', 'server']);
  const moments = deaths.map(() => random.integer(1, Math.floor(study.scans.size * 0.9)));
  moments.sort((a, b) => a - b);
  const start = () => ({ ...startRemoteApp(context, study.words(), { url: server.url }), since: Date.now() });
  let client = start();
  const hasEnded = () => client.child.exitCode !== null;
  // A command that never reached its server does not wait for it. The table is written when it has.
  const hasBegun = () => study.tableTime > client.since;
  try {
    for (const [at, who] of deaths.entries()) {
      const isTime = () => study.computed.length >= moments[at] && (who === 'client' || hasBegun());
      await until('the cohort goes on', () => hasEnded() || isTime());
      await delay(random.integer(0, 400));
      context.count(`deaths of the ${who} of a cohort`);
      if (who === 'server') {
        await server.kill();
        await delay(random.integer(0, 1500));
        await server.start();
      } else {
        client.child.kill('SIGKILL');
        await client.ended;
        client = start();
      }
    }
    return await within('the cohort ends', client.ended, bound);
  } finally {
    client.child.kill('SIGKILL');
  }
}

/** Each good case has its result, each bad one its reason, and nothing is left of what was being done when a process died. */
function checkResults(context, study, reasons, { code, stderr }) {
  const { scans } = study;
  context.check(code === 1, `A cohort with bad cases ended with ${code}: ${stderr.slice(-800)}`);
  const table = study.table();
  context.check(table.size === scans.size, `The table has ${table.size} rows for ${scans.size} cases`);
  for (const name of scans.keys()) {
    const { status, reason = '' } = table.get(name) ?? {};
    const expected = reasons.get(name);
    if (expected === undefined) {
      const fault = study.faultOf(name);
      context.check(fault === null, `The case ${name} ${fault}`);
      context.check(status === 'done', `The case ${name} is ${status} in the table: ${reason}`);
      continue;
    }
    context.check(
      status === 'failed' && expected.test(reason),
      `The bad case ${name} is ${status} in the table: ${reason}`,
    );
    const told = new RegExp(`^  ${name}: (.*)$`, 'm').exec(stderr)?.[1] ?? '';
    context.check(expected.test(told), `The bad case ${name} is not named with its reason: '${told}'`);
    const place = path.join(study.root, 'Out', name);
    context.check(!existsSync(place), `The bad case ${name} has a directory`);
  }
  const good = [...scans.keys()].filter((name) => !reasons.has(name));
  checkNames(context, path.join(study.root, 'Out'), ['.remote-app', 'cases.csv', ...good]);
  checkNames(context, path.join(study.root, 'Out', '.remote-app'), ['jobs.jsonl']);
}

function checkNames(context, directory, expected) {
  const there = readdirSync(directory);
  const more = there.filter((name) => !expected.includes(name));
  context.check(more.length === 0, `There is more than results in ${directory}: ${more.join(', ')}`);
}

/** Each good scan was computed once, each bad one at most once by each command, and each computation had a job of its own. */
function checkComputed(context, server, study, reasons, commands) {
  const { computed } = study;
  for (const [name, content] of study.scans) {
    const count = computed.filter((each) => each === content).length;
    const isRight = reasons.has(name) ? count <= commands : count === 1;
    context.check(isRight, `The ${reasons.has(name) ? 'bad ' : ''}case ${name} was computed ${count} times`);
  }
  const jobs = server.jobDirectories().length;
  context.check(jobs === computed.length, `${jobs} jobs were sent for ${computed.length} computations`);
}

async function killedCohort(context) {
  const { study, reasons } = makeStudy(context);
  const flags = ['--port', String(await freePort()), '--cpu-slots', '4', '--grace', '600'];
  const server = await new Server(context, { apps: [study.app], flags }).start();
  try {
    const last = await runUnderDeaths(context, server, study);
    checkResults(context, study, reasons, last);
    checkComputed(context, server, study, reasons, 4);
    const again = await remoteApp(context, study.words(), { url: server.url, limit: bound });
    checkResults(context, study, reasons, again);
    checkComputed(context, server, study, reasons, 5);
    const good = study.scans.size - reasons.size;
    const isFoundDone = again.stderr.includes(`${good} done (${good} of them before)`);
    context.check(isFoundDone, `A finished cohort was not found done: ${again.stderr.slice(-800)}`);
  } finally {
    await server.close();
  }
}

export async function run(context) {
  for (let left = Math.max(1, Math.round(context.rounds / 10)); left > 0; left -= 1) {
    await context.attempt('A cohort under deaths', () => killedCohort(context));
  }
}
