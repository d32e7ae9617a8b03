import { mkdirSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { file } from '../../../support/form.mjs';
import { filePart, multipart, multipartType, requestHead } from '../../../support/multipart.mjs';
import { unzip } from '../../../support/unzip.mjs';
import { ended, job, kill, listJobs, logOf, request, steps, submit } from '../../support/api.mjs';
import { Connection } from '../../support/connection.mjs';
import { plant, step } from '../../support/plan.mjs';
import { apps, Server } from '../../support/server.mjs';
import { SmallDisk } from '../../support/tmpfs.mjs';
import { until, within } from '../../support/until.mjs';
import { killBound } from '../kill/kill-case.mjs';

const mebibyte = 2 ** 20;
/** Bytes that an upload must leave free for the jobs, on a disk of 64 MiB. */
const leastHeadroom = mebibyte;
const lines = 200;

/**
 * A harmless job: it has written a checkpoint and its output, and then prints, when the gate says so. Returns its id
 * and what checks that it came to a good end.
 */
async function harmless(context, server, disk, gate, what) {
  const [answer, checkpoint] = [context.random.word(2000), context.random.word(2000)];
  const plan = [
    step.file('answer', answer),
    step.file('checkpoint', checkpoint, 'workspace'),
    step.print('ready'),
    step.wait(`${gate}1`),
    ...Array.from({ length: lines }, (_, at) => step.print(`line ${at} ${'x'.repeat(300)}`)),
    step.wait(`${gate}2`),
    step.print('the end'),
  ];
  const id = await plant(context, server, disk.directory, plan);
  const log = `${server.jobDirectory(id)}/log`;
  await until('the harmless job runs', async () => (await logText(log)).includes('ready\n'));
  const check = async () => {
    const { status, error } = await ended(server, id, 30_000);
    context.check(status === 'done', `Under ${what} a harmless neighbour ended as ${status}: ${error}`);
    const { text } = await request(server, `/jobs/${id}`);
    if (status !== 'done') return;
    const result = await request(server, `/jobs/${id}/result`);
    const isWhole = result.status === 200 && String(unzip(result.bytes).get('answer')) === answer;
    context.check(
      isWhole,
      `After ${what} the result of a harmless neighbour answers ${result.status}: ${text}`,
    );
    const said = await logOf(server, id);
    const printed = said.filter((line) => line.startsWith('line ')).length;
    const isNoted = said.some(
      (line) => line.startsWith('[remote-app] ') && /disk|written|dropped|lack/i.test(line),
    );
    context.check(
      printed === lines || isNoted,
      `Under ${what} the log of a neighbour lost ${lines - printed} of ${lines} lines without a note`,
    );
  };
  const kept = () =>
    until(
      'its checkpoint is there',
      async () => (await logText(`${server.jobDirectory(id)}/Workspace/checkpoint`)) === checkpoint,
      1000,
    ).catch(() => context.violation(`Under ${what} the checkpoint of a running neighbour is gone`));
  return { id, check, kept };
}

const logText = async (name) => {
  const { readFile } = await import('node:fs/promises');
  return readFile(name, 'utf8').catch(() => '');
};

/** Sends uploads of unknown length until one is refused; returns the lowest free room meanwhile. */
async function uploadUntilRefused(context, server, disk) {
  let least = disk.free;
  const connection = await Connection.open(server.url);
  const body = multipart([filePart('inputs', 'large.nii', Buffer.alloc(100 * mebibyte, 7))]);
  connection.write(
    requestHead('POST', '/apps/rogue/infer', [
      `Content-Type: ${multipartType}`,
      'Transfer-Encoding: chunked',
    ]),
  );
  for (
    let at = 0;
    at < body.length && !connection.isClosed && connection.received.length === 0;
    at += mebibyte / 2
  ) {
    const piece = body.subarray(at, at + mebibyte / 2);
    const chunk = Buffer.concat([
      Buffer.from(`${piece.length.toString(16)}\r\n`),
      piece,
      Buffer.from('\r\n'),
    ]);
    await Promise.race([connection.write(chunk), delay(500)]);
    least = Math.min(least, disk.free);
  }
  const answer = await connection.answer('the answer to an upload that does not fit');
  connection.close();
  context.check(
    answer?.status === 507,
    `An upload that does not fit was answered ${answer?.status}: ${answer?.body}`,
  );
  return least;
}

/** Another upload fills the disk as far as it may. */
async function underUpload(context, server, disk, gate) {
  const what = 'an upload that fills the disk';
  const neighbour = await harmless(context, server, disk, gate, what);
  const least = await uploadUntilRefused(context, server, disk);
  const left = `${what} left ${(least / 1024).toFixed(0)} KiB to the jobs that run`;
  context.check(least >= leastHeadroom, `While it lasted, ${left}`);
  writeFileSync(`${gate}1`, '');
  await neighbour.kept();
  writeFileSync(`${gate}2`, '');
  await neighbour.check();
}

/** The disk is full to the last byte while a job prints and while it ends; then there is room again. */
async function underBallast(context, server, disk, gate) {
  const what = 'a disk without a free byte';
  const neighbour = await harmless(context, server, disk, gate, what);
  const empty = disk.fill();
  writeFileSync(`${gate}1`, '');
  await delay(800);
  await neighbour.kept();
  writeFileSync(`${gate}2`, '');
  await delay(800);
  empty();
  await neighbour.check();
}

/** Another job fills the disk with its output and keeps running; a kill ends it in time. */
async function underJob(context, server, disk, gate) {
  const what = 'a job that fills the disk';
  const neighbour = await harmless(context, server, disk, gate, what);
  const form = { inputs: file('scan.nii'), options: steps({ do: 'overflowAndStay' }), cpu: '1' };
  const id = await submit(server, 'rogue', 'infer', form);
  await until('the disk is full', () => disk.free === 0);
  writeFileSync(`${gate}1`, '');
  await delay(800);
  await neighbour.kept();
  context.check(
    (await job(server, neighbour.id)).status === 'running',
    `Under ${what} a neighbour no longer runs`,
  );
  const { status } = await within('the kill is answered', kill(server, id), killBound);
  context.check(status === 'killed', `The kill of ${what} left it ${status}`);
  writeFileSync(`${gate}2`, '');
  // The files of a job are kept until its grace period is over; here the admin removes them.
  writeFileSync(`${server.jobDirectory(id)}/Output/big`, '');
  await neighbour.check();
}

/** Two jobs whose archives do not fit: both results are sent complete from the jobs' outputs. */
async function packedWithoutRoom(context, server, disk) {
  const ids = [];
  for (let count = 0; count < 2; count += 1) {
    const form = { inputs: file('scan.nii'), options: steps({ do: 'large' }), cpu: '1' };
    ids.push(await submit(server, 'rogue', 'infer', form));
  }
  const free = () => disk.free / mebibyte;
  await until(
    'both have ended or fill the disk',
    async () => (await listJobs(server)).every(({ finished_at }) => finished_at !== null),
    40_000,
  ).catch(() =>
    context.violation(`Jobs whose results do not fit do not end; ${free().toFixed(0)} MiB are free`),
  );
  for (const id of ids) {
    const { status, error } = await job(server, id);
    context.check(
      status === 'done',
      `A job whose archive does not fit on the disk ended as ${status}: ${error}`,
    );
    const result = await request(server, `/jobs/${id}/result`);
    const isWhole = result.status === 200 && unzip(result.bytes).get('large')?.length === 14 * mebibyte;
    context.check(
      isWhole,
      `The result that does not fit on the disk answers ${result.status}: ${result.text.slice(0, 200)}`,
    );
  }
}

const cases = { underUpload, underBallast, underJob, packedWithoutRoom };

/** Full disks under harmless jobs. Each case has its own disk and server. */
export async function neighbours(context) {
  for (const [name, runCase] of context.random.shuffle(Object.entries(cases))) {
    const disk = SmallDisk.mount(context, name === 'packedWithoutRoom' ? 'size=46m' : 'size=64m');
    if (disk === null) return;
    context.count('a full disk beside a harmless job');
    const server = new Server(context, {
      dataDirectory: disk.data,
      apps: [apps.rogue, apps.planter],
      flags: ['--cpu-slots', '2', '--grace', '600'],
    });
    const gates = `${context.scratch}/gates-${context.serial()}`;
    mkdirSync(gates);
    try {
      await server.start();
      await context.attempt('A full disk beside a harmless job', () =>
        runCase(context, server, disk, `${gates}/`),
      );
    } finally {
      for (const line of [1, 2]) writeFileSync(`${gates}/${line}`, '');
      await server.close();
      disk.unmount();
    }
  }
}
