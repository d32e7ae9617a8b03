/**
 * Power cuts without one: a workload is recorded call by call, and a server, or the client of a cohort, is started on what a cut
 * after some call may have left on the disk. What had been answered, or told, by then must hold.
 */
import { spawnSync } from 'node:child_process';
import { lstatSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { times } from '../context.mjs';
import { Server } from '../support/server.mjs';
import { Study } from './cohort/study.mjs';
import { recordCohort, replayCohort, toldIn } from './power-cut/cohort-replay.mjs';
import { DiskModel } from './power-cut/disk-model.mjs';
import { Promises, replay } from './power-cut/replay.mjs';
import { callsOn } from './power-cut/trace.mjs';
import { recordWorkload } from './power-cut/workload.mjs';

function* differences(node, directory) {
  const there = readdirSync(directory);
  for (const name of node.entries.keys())
    if (!there.includes(name)) yield `${path.join(directory, name)} is not there`;
  for (const name of there) {
    const file = path.join(directory, name);
    const child = node.entries.get(name);
    const info = lstatSync(file);
    if (child === undefined && (info.isFile() || info.isDirectory())) yield `${file} was never made`;
    else if (info.isDirectory()) yield* differences(child, file);
    else if (info.isFile() && !readFileSync(file).equals(child.data)) yield `${file} has other content`;
  }
}

/** The model must end with the content of the disk: otherwise it does not understand a call. */
function checkModel(context, base, calls) {
  const model = new DiskModel(base);
  for (const call of calls) model.apply(call);
  const [first] = differences(model.root, base);
  context.check(first === undefined, `The harness does not understand a call of the trace: ${first}`);
}

const cutsInTenRounds = 36;
/** Servers, or clients, side by side. */
const lanes = 3;

/** Replays cuts, half of them directly after a call that promised something, where they are most critical. */
async function replayCuts(context, calls, answers, replayOne) {
  const { random, rounds } = context;
  const count = Math.max(8, times(rounds, cutsInTenRounds));
  const chosen = Array.from({ length: count }, (_, at) =>
    at % 2 === 0 && answers.length > 0 ? random.pick(answers) : random.integer(0, calls.length),
  );
  const turns = chosen.map((each, at) => ({ count: each, random: random.fork(`cut ${at}`) }));
  const lane = async () => {
    for (let next = turns.shift(); next !== undefined; next = turns.shift())
      await replayOne(next.count, next.random);
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}

/** The positions behind the calls for which this holds. */
const behind = (calls, isWanted) => calls.flatMap((call, at) => (isWanted(call) ? [at + 1] : []));

async function cutServer(context) {
  const workload = await recordWorkload(context);
  const calls = callsOn(workload.data, workload.trace, /^(socket|TCP)/);
  context.count('calls of a server that were recorded', calls.length);
  checkModel(context, workload.data, calls);
  const promises = new Promises();
  const answers = behind(calls, (call) => promises.hear(call));
  await replayCuts(context, calls, answers, (count, random) =>
    replay(context, workload, calls, count, random),
  );
}

async function cutClient(context) {
  const study = new Study(context);
  const flags = ['--cpu-slots', '4', '--grace', '600'];
  const server = await new Server(context, { apps: [study.app], flags }).start();
  try {
    const cohort = await recordCohort(context, study, server);
    context.count('calls of a client that were recorded', cohort.calls.length);
    checkModel(context, cohort.output, cohort.calls);
    const told = behind(cohort.calls, (call) => toldIn(call).length > 0);
    await replayCuts(context, cohort.calls, told, (count, random) =>
      replayCohort(context, cohort, count, random),
    );
  } finally {
    await server.close();
  }
}

export async function run(context) {
  if (spawnSync('strace', ['-f', 'true'], { stdio: 'ignore' }).status !== 0) {
    context.note('LEFT OUT: strace is not here, or may not trace');
    return;
  }
  await cutServer(context);
  await context.attempt('Power cuts of a cohort', () => cutClient(context));
}
