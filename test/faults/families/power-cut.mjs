/**
 * Power cuts without one: a workload is recorded call by call, and a server is started on what a cut after some call
 * may have left on the disk. What had been answered by then must hold.
 */
import { spawnSync } from 'node:child_process';
import { times } from '../context.mjs';
import { Promises } from './power-cut/promises.mjs';
import { replay } from './power-cut/replay.mjs';
import { checkModel } from './power-cut/self-check.mjs';
import { callsIn } from './power-cut/trace.mjs';
import { recordWorkload } from './power-cut/workload.mjs';

const cutsInTenRounds = 36;
/** Servers side by side. */
const lanes = 3;

/** Where to cut: half of the cuts directly after an answer that promised something, where they are most critical. */
function chooseCuts(random, calls, count) {
  const promises = new Promises();
  const answers = calls.flatMap((call, at) => (promises.hear(call) ? [at + 1] : []));
  return Array.from({ length: count }, (_, at) =>
    at % 2 === 0 && answers.length > 0 ? random.pick(answers) : random.integer(0, calls.length),
  );
}

export async function run(context) {
  if (spawnSync('strace', ['-f', 'true'], { stdio: 'ignore' }).status !== 0) {
    context.note('LEFT OUT: strace is not here, or may not trace');
    return;
  }
  const workload = await recordWorkload(context);
  const isOurs = ({ args, paths, opened }) =>
    [opened, ...paths, ...args.map(({ path }) => path)].some(
      (path) => path?.startsWith(workload.data) || path?.startsWith('socket') || path?.startsWith('TCP'),
    );
  const calls = [...callsIn(workload.trace)].filter((call) => isOurs(call) || /^sync/.test(call.name));
  context.count('calls that were recorded', calls.length);
  checkModel(context, workload, calls);
  const cuts = chooseCuts(context.random, calls, Math.max(8, times(context.rounds, cutsInTenRounds)));
  const turns = cuts.map((count, at) => ({ count, random: context.random.fork(`cut ${at}`) }));
  const lane = async () => {
    for (let next = turns.shift(); next !== undefined; next = turns.shift()) {
      await replay(context, workload, calls, next.count, next.random);
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}
