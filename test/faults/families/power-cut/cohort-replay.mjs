import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { remoteApp, startRemoteApp } from '../../support/client.mjs';
import { until } from '../../support/until.mjs';
import { cutAfter, materialise } from './survivors.mjs';
import { callsOn, tracer } from './trace.mjs';

/**
 * Records a client with a few cases under strace: a command that computes all of them, and a command after one input has
 * changed. The server keeps the jobs.
 */
export async function recordCohort(context, study, server) {
  const { random } = context;
  for (const number of [1, 2, 3, 4])
    study.add(number, `scan ${number} ${random.word(random.integer(1, 3000))}`);
  const output = path.join(context.scratch, `cohort-${String(context.serial()).padStart(6, '0')}`);
  const calls = [];
  const traced = async () => {
    const trace = path.join(context.scratch, `trace-${context.serial()}`);
    const { child, ended } = startRemoteApp(context, study.words(output), {
      url: server.url,
      launcher: tracer(trace),
      environment: { UV_USE_IO_URING: '0' },
    });
    const { code, stderr } = await ended;
    if (code !== 0) throw new Error(`A cohort ended with ${code}: ${stderr.slice(-800)}`);
    // The tracer ends a moment after the command.
    const end = new RegExp(`^${child.pid} +\\+\\+\\+ exited with`, 'm');
    await until('the trace is written', () => end.test(readFileSync(trace, 'latin1')));
    calls.push(...callsOn(output, trace, /^pipe/));
  };
  await traced();
  const changedAt = calls.length;
  study.add(1, `scan 1 again ${random.word(random.integer(1, 3000))}`);
  await traced();
  const [changed] = study.scans.keys();
  return { study, server, output, calls, changed, changedAt, computed: study.computed.length };
}

/** The cases that a call tells to be done. */
export function toldIn({ name, args }) {
  if (!/^writev?$/.test(name) || !args[0]?.path?.startsWith('pipe')) return [];
  const said = Buffer.concat(args.flatMap(({ bytes }) => bytes ?? [])).toString();
  return [...said.matchAll(/^done (\S+)/gm)].map(([, told]) => told);
}

/** The table is complete, and each case that it calls done is there, or will be put back by the next command. */
function checkTable(context, { study }, output, when) {
  if (!existsSync(path.join(output, 'cases.csv'))) return;
  const table = study.table(output);
  context.check(
    table.size === study.scans.size,
    `A power cut leaves a table of ${table.size} cases (${when})`,
  );
  for (const [name, { status }] of table) {
    if (status !== 'done') continue;
    const own = path.join(output, '.remote-app');
    const replaced = existsSync(own) ? readdirSync(own).filter((each) => each.startsWith('old-')) : [];
    const places = [output, ...replaced.map((each) => path.join(own, each, 'files'))];
    const isThere = places.some((place) => study.isWhole(name, place));
    context.check(isThere, `The table calls the case ${name} done, and it is not there (${when})`);
  }
}

/** The results are complete and belong to their inputs, and nothing else is left. */
function checkResults(context, { study }, output, when) {
  for (const name of study.scans.keys()) {
    const fault = study.faultOf(name, output);
    context.check(
      fault === null,
      `The case ${name} ${fault} after a power cut and the same command (${when})`,
    );
  }
  const own = path.join(output, '.remote-app');
  const expected = ['.remote-app', 'cases.csv', ...study.scans.keys(), 'jobs.jsonl'];
  const there = [...readdirSync(output), ...readdirSync(own)];
  const left = there.filter((name) => !expected.includes(name));
  context.check(
    left.length === 0,
    `${left.join(', ')} is left after a power cut and the same command (${when})`,
  );
}

/** Cuts the power after so many calls of the client, and gives the same command on what may be on the disk then. */
export async function replayCohort(context, cohort, count, random) {
  const { study, server, calls, changed, changedAt, computed } = cohort;
  const { state, when } = cutAfter(calls, count, cohort.output, random);
  const output = path.join(context.scratch, `cohort-${String(context.serial()).padStart(6, '0')}`);
  materialise(state, output);
  context.count(`a power cut of a client that leaves ${state.what.split(', ')[0]}`);
  try {
    checkTable(context, cohort, output, when);
    const { code, stdout, stderr } = await remoteApp(context, [...study.words(output), '--json'], {
      url: server.url,
    });
    if (code !== 0) {
      context.violation(`A cohort after a power cut ended with ${code}: ${stderr.slice(-800)} (${when})`);
      return;
    }
    checkResults(context, cohort, output, when);
    const isNew = new Map(JSON.parse(stdout).cases.map((each) => [each.case, each.is_new]));
    for (const [at, call] of calls.slice(0, count).entries()) {
      for (const name of toldIn(call)) {
        // The second command computes this one again.
        const isOver = at < changedAt && name === changed;
        context.check(
          isOver || !isNew.get(name),
          `The case ${name} was told to be done before a power cut, and is done again after it (${when})`,
        );
      }
    }
    context.check(
      study.computed.length === computed,
      `A case was computed again after a power cut (${when})`,
    );
  } finally {
    rmSync(output, { recursive: true, force: true });
  }
}
