import { setTimeout as delay } from 'node:timers/promises';
import { checkArchive } from '../../invariants.mjs';
import { request } from '../../support/api.mjs';
import { Preload } from '../../support/preload.mjs';
import { Server } from '../../support/server.mjs';
import { doneJob, removal } from './done-job.mjs';

const grace = 4;
const slack = 8000;
/** Least milliseconds until a removal, as this client sees it: on a busy machine it notices a job's end late. */
const least = (grace * 1000) / 2;

/** HEAD, a jump of the wall clock, GET; and each job is removed one grace after its end, as a clock on the wall runs. */
export async function clockJump(context, seconds) {
  const jump = `a jump of the clock by ${seconds} s`;
  context.count(jump);
  const preload = Preload.build(context);
  const server = await new Server(context, {
    environment: preload.environment,
    flags: ['--grace', String(grace)],
  }).start();
  try {
    const [fetched, left] = [await doneJob(context, server), await doneJob(context, server)];
    const ended = performance.now();
    const { status: before } = await request(server, `/jobs/${fetched.id}/result`, { method: 'HEAD' });
    preload.setClock(seconds);
    await delay(context.random.integer(0, 800));
    const result = await request(server, `/jobs/${fetched.id}/result`);
    const got = performance.now();
    if (result.status === 200) checkArchive(context, fetched, result.bytes);
    const isSame = before === 200 && result.status === 200;
    context.check(
      isSame,
      `With ${jump} between them, HEAD of a result answered ${before} and GET ${result.status}`,
    );
    const there = await request(server, `/jobs/${left.id}`);
    const isLate = performance.now() - ended > grace * 1000;
    context.check(
      there.status === 200 || isLate,
      `After ${jump} a job answers ${there.status} within its grace`,
    );
    for (const [{ id }, since] of [
      [left, ended],
      [fetched, got],
    ]) {
      const took = await removal(server, id, since, grace * 1000 + slack);
      const isDue = took !== null && took >= least;
      const says = took === null ? 'was not removed' : `was removed after ${(took / 1000).toFixed(1)} s`;
      context.check(isDue, `After ${jump} a job with a grace of ${grace} s ${says}`);
    }
    // A job after the jump has its grace period like any other.
    const late = await doneJob(context, server);
    const took = await removal(server, late.id, performance.now(), grace * 1000 + slack);
    const isDue = took !== null && took >= least;
    context.check(isDue, `A job of after ${jump} was removed after ${took?.toFixed(0) ?? 'too many'} ms`);
  } finally {
    await server.close();
  }
}
