/** Requests that no honest client sends. Each is refused, costs the server little memory and never crashes it. */
import { writeFileSync } from 'node:fs';
import { times } from '../context.mjs';
import { checkIsUp, checkPlaces, killAll } from '../support/aftermath.mjs';
import { listJobs } from '../support/api.mjs';
import { pour } from '../support/pour.mjs';
import { memoryOf } from '../support/processes.mjs';
import { Server } from '../support/server.mjs';
import { floods } from './requests/floods.mjs';

/** The highest memory of a process from now on, not since its start, where the kernel lets this be asked. */
class MemoryPeak {
  constructor(pid) {
    this.pid = pid;
    try {
      // 5 sets VmHWM back to what is in use now (proc(5), clear_refs).
      writeFileSync(`/proc/${pid}/clear_refs`, '5');
    } catch {
      // Then it is the highest since the start: the growth is seen as smaller than it is, never as larger.
    }
    this.before = memoryOf(pid, 'VmHWM');
  }

  /** Bytes by which it has grown at most. */
  get growth() {
    return Math.max(0, memoryOf(this.pid, 'VmHWM') - this.before);
  }
}

const places = 3;
const mebibyte = 2 ** 20;
/** Bytes of memory that one request may cost, including buffers and garbage that is not yet collected. */
const memoryBound = 150 * mebibyte;

const cuts = [(connection) => connection.close(), (connection) => connection.reset()];

/** Sends one request, complete or cut at a random place, and checks what it left. */
async function attack(context, server, { what, pieces, expected, size = 0 }) {
  const { random } = context;
  const { pid } = server;
  const jobsBefore = (await listJobs(server)).length;
  const peak = new MemoryPeak(pid);
  const isCut = size > 0 && random.chance(0.3);
  const limits = isCut ? { most: random.integer(1, size - 1), cut: random.pick(cuts) } : {};
  context.count(isCut ? 'requests cut at a random place' : 'requests sent whole');
  const began = performance.now();
  const { status, body } = await pour(server, pieces(), limits);
  context.highest('longest time that one request took', performance.now() - began, 'ms');
  await checkIsUp(context, server, pid, what);
  const grown = (peak.growth / mebibyte).toFixed(0);
  context.highest('memory taken by one request', peak.growth, 'bytes');
  context.check(peak.growth <= memoryBound, `${what} made the server grow by ${grown} MiB`);
  if (isCut) return;
  context.check(status !== 500, `${what} was answered with 500: ${body.slice(0, 200)}`);
  if (expected !== undefined) {
    context.check(expected.includes(status), `${what} was answered with ${status}: ${body.slice(0, 200)}`);
  }
  const jobs = await killAll(server);
  const isTold = status === 200 ? jobs === jobsBefore + 1 : jobs === jobsBefore;
  context.check(isTold, `${what} was answered with ${status} and left ${jobs - jobsBefore} jobs`);
}

async function under(context, flags, attacks) {
  const server = new Server(context, { flags: ['--max-jobs', String(places), '--cpu-slots', '1', ...flags] });
  await server.start();
  try {
    for (const each of attacks) {
      await context.attempt(each.what, () => attack(context, server, each));
      await server.revive();
    }
    await checkPlaces(context, server, places, 'requests that were refused or cut');
  } finally {
    await server.close();
  }
}

/** Some of them, always including the first. Other seeds choose others. */
const some = (context, list, inTen) => {
  const [first, ...others] = list;
  const count = times(context.rounds, inTen);
  return [first, ...context.random.shuffle(others).slice(0, count)];
};

export async function run(context) {
  const { wide, narrow } = floods(context.random);
  await under(context, ['--max-upload-size', '64MiB'], some(context, wide, 6));
  await under(context, ['--max-upload-size', '8MiB'], some(context, narrow, narrow.length));
}
