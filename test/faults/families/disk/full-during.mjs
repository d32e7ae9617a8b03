import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, rmSync, truncateSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { file } from '../../../support/form.mjs';
import { job, kill, steps, submit } from '../../support/api.mjs';
import { until, within } from '../../support/until.mjs';
import { endAll, tellsOfTheDisk, worksAgain } from './works-again.mjs';

const mebibyte = 2 ** 20;

/** Names of records in a job's directory. */
const fifoNames = ['job.json', 'job.json.reserved', 'exit.json', 'exit.json.reserved', 'runner.json'];

const start = (server, deed) =>
  submit(server, 'rogue', 'infer', { inputs: file('scan.nii'), options: steps({ do: deed }) });

/** The command fills the disk and ends with its own error, while nothing else can be written. */
async function duringRun(context, server, disk) {
  const id = await start(server, 'overflow');
  await until('the disk is full', () => disk.free === 0);
  await context.attempt('A job that fills the disk', async () => {
    const view = await until(
      'the job that filled the disk ends',
      async () => {
        const now = await job(server, id);
        return now.finished_at === null ? null : now;
      },
      30_000,
    );
    context.check(view.status === 'error', `A job that fills the disk ended as ${view.status}`);
    // The files of a job are kept until its grace period is over, even if others need the room.
    const isKept = existsSync(path.join(server.jobDirectory(id), 'Output', 'big'));
    context.check(isKept, 'What a job left that filled the disk was deleted before its grace was over');
  });
}

/** Starts a job that fills the disk and keeps running; resolves with its id when the disk is full. */
async function startFilling(server, disk) {
  const id = await start(server, 'overflowAndStay');
  await until('the disk is full', () => disk.free === 0);
  return id;
}

/** A kill must be able to end it. */
const endsByKill = (context, server, id, what) =>
  context.attempt(`The kill of ${what}`, async () => {
    const { status } = await within('the kill is answered', kill(server, id), 30_000);
    context.check(status === 'killed', `The kill of ${what} left it ${status}`);
  });

async function killedWhenFull(context, server, disk) {
  await endsByKill(context, server, await startFilling(server, disk), 'a job that fills the disk');
}

/** The same job has put a FIFO, whose opening may wait for ever, where the server or the runner writes what there is room reserved for. */
async function killedAmongFifos(context, server, disk) {
  const id = await startFilling(server, disk);
  const name = context.random.pick(fifoNames);
  const record = path.join(server.jobDirectory(id), name);
  rmSync(record, { recursive: true, force: true });
  execFileSync('mkfifo', [record]);
  await endsByKill(context, server, id, `a job that fills the disk and whose ${name} is a FIFO`);
}

/** A log that fills the disk does not end the command: lines that do not fit are left out, and a kill works. */
async function logWhenFull(context, server, disk) {
  const id = await start(server, 'chatter');
  await until('the disk is full', () => disk.free < mebibyte);
  await delay(500);
  const { status, error } = await job(server, id);
  context.check(status === 'running', `A job whose log fills the disk is ${status}: ${error}`);
  const killed = await within('the kill is answered', kill(server, id), 20_000);
  context.check(
    killed.status === 'killed',
    `The kill of a job whose log fills the disk left it ${killed.status}`,
  );
}

/** A server that died on a full disk starts again, or says what is wrong. */
async function startedWhenFull(context, server, disk) {
  await server.kill();
  const empty = disk.fill();
  server.mayEnd = true;
  try {
    await server.start();
  } catch (cause) {
    const isClear = tellsOfTheDisk.test(cause.message) && cause.message.includes(server.dataDirectory);
    context.check(isClear, `A start on a full disk ended with: ${cause.message}`);
  }
  server.mayEnd = false;
  empty();
  if (server.url === '') await server.start();
}

/** Removes by hand what a case left, as an admin would. */
function clean(server) {
  for (const id of readdirSync(server.jobsDirectory)) {
    rmSync(path.join(server.jobDirectory(id), 'Output'), { recursive: true, force: true });
    const log = path.join(server.jobDirectory(id), 'log');
    if (existsSync(log)) truncateSync(log, 0);
  }
}

const cases = {
  'the run': duringRun,
  'a kill': killedWhenFull,
  'a kill among FIFOs': killedAmongFifos,
  'the log': logWhenFull,
  'a start': startedWhenFull,
};

export async function fullDuring(context, server, disk) {
  for (const [during, runCase] of context.random.shuffle(Object.entries(cases))) {
    context.count(`a disk full during ${during}`);
    await context.attempt(`A disk full during ${during}`, () => runCase(context, server, disk));
    await endAll(server);
    clean(server);
    await worksAgain(context, server, `a disk full during ${during}`);
  }
}
