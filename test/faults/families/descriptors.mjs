/** Too few file descriptors, and results that cost much memory or time. The jobs are not affected. */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { file } from '../../support/form.mjs';
import { filePart, multipart, multipartType, requestHead } from '../../support/multipart.mjs';
import { times } from '../context.mjs';
import { checkGpus, checkWitness } from '../invariants.mjs';
import { killAll } from '../support/aftermath.mjs';
import { ended, isFinal, job, listJobs, request, steps, submit, trySubmit } from '../support/api.mjs';
import { Connection } from '../support/connection.mjs';
import { Server } from '../support/server.mjs';
import { until } from '../support/until.mjs';
import { results } from './descriptors/results.mjs';

/** Milliseconds within which an honest client gets an answer while others are silent. */
const patience = 20_000;

/** Opens one; null where the server refuses it at once. */
const openSilent = (server) => Connection.open(server.url).catch(() => null);

/** When a job is final, none of its processes runs. */
async function checkFinal(context, server, limit) {
  const jobs = await listJobs(server).catch(() => []);
  const final = new Set(jobs.filter(isFinal).map(({ job_id }) => job_id));
  await delay(300);
  for (const { id, command } of server.processes()) {
    context.check(
      !final.has(id),
      `At ${limit} descriptors job ${id} is final for the server while its command still computes: ${command.slice(0, 80)}`,
    );
  }
  await checkGpus(context, server);
}

/** There are 1.5 times as many silent sockets as descriptors, while jobs start, run and end. */
async function silentSockets(context, limit) {
  const { random } = context;
  const witness = path.join(context.scratch, `witness-${context.serial()}`);
  const server = new Server(context, {
    gpus: 2,
    launcher: ['prlimit', `--nofile=${limit}:${limit}`],
    flags: ['--grace', '600'],
  });
  await server.start();
  const jobs = [];
  const start = async (gpu) => {
    const gate = path.join(context.scratch, `gate-${context.serial()}-`);
    const nonce = `nonce${context.serial()}`;
    const options = steps({ witness, nonce, gate });
    const id = await submit(server, 'witness', 'infer', { inputs: file('scan.nii'), gpu, options });
    jobs.push({ id, nonce, open: () => writeFileSync(`${gate}1`, '') });
  };
  // One ends meanwhile, one keeps running, two wait for their GPUs.
  for (const gpu of ['0', '1', '0', '1']) await start(gpu);
  await until(
    'two jobs run',
    async () => (await listJobs(server)).filter(({ status }) => status === 'running').length === 2,
  );
  const opened = await Promise.all(Array.from({ length: Math.ceil(limit * 1.5) }, () => openSilent(server)));
  const silent = opened.filter((each) => each !== null);
  context.count('sockets that say nothing', silent.length);
  try {
    for (const each of silent) if (random.chance(0.2)) await each.write('GET /heal');
    await delay(700);
    jobs[0].open();
    await delay(random.integer(2000, 3000));
    await context.attempt(`An honest client at ${limit} descriptors`, () =>
      until(
        'an honest client is answered',
        () =>
          request(server, '/health', { limit: 3000 }).then(
            ({ status }) => status === 200,
            () => false,
          ),
        patience,
        500,
      ),
    );
    for (const each of silent) each.close();
    await until('the server answers again', () =>
      request(server, '/health').then(
        () => true,
        () => false,
      ),
    );
    await checkFinal(context, server, limit);
    for (const each of jobs) each.open();
    for (const { id } of jobs) {
      await ended(server, id, 30_000).catch((cause) =>
        context.violation(`At ${limit} descriptors: ${cause.message}`),
      );
      const { status, error } = await job(server, id);
      context.check(
        status === 'done',
        `At ${limit} descriptors, with ${silent.length} silent sockets, job ${id} became ${status}: ${error}`,
      );
    }
    checkWitness(context, witness, jobs);
  } finally {
    for (const each of silent) each.close();
    for (const each of jobs) each.open();
    await server.close();
  }
}

const places = 2;
const body = multipart([filePart('inputs', 'scan.nii', 'v'.repeat(200_000))]);

/** The directories of jobs and of uploads under way, wherever in the data directory they are kept. */
const uploadDirectories = ({ dataDirectory }) =>
  readdirSync(dataDirectory, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && entry.name !== 'trash')
    .flatMap(({ name }) =>
      readdirSync(path.join(dataDirectory, name)).map((id) => path.join(dataDirectory, name, id)),
    );

/** Begins an upload and mounts something in its directory, so that it cannot be removed. */
async function beginStuck(server) {
  const connection = await Connection.open(server.url);
  const before = new Set(uploadDirectories(server));
  const headers = [`Content-Type: ${multipartType}`, `Content-Length: ${body.length}`];
  await connection.write(
    Buffer.concat([requestHead('POST', '/apps/witness/infer', headers), body.subarray(0, 100_000)]),
  );
  const isNew = (each) => !before.has(each);
  const directory = await until(
    'an upload has a directory',
    () => uploadDirectories(server).find(isNew) ?? (connection.received.length > 0 ? 'refused' : null),
    20_000,
  );
  if (directory === 'refused')
    throw new Error(`An upload was answered ${connection.received.toString().slice(0, 300)}`);
  const incoming = path.join(directory, 'Incoming');
  const held = path.join(existsSync(incoming) ? incoming : directory, 'held');
  mkdirSync(held);
  const words = ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', held];
  if (spawnSync('mount', words, { stdio: 'ignore' }).status === 0) return connection;
  connection.close();
  return null;
}

/** The mount points below a directory, also after it was moved. */
const mountedBelow = (directory) =>
  readFileSync('/proc/self/mounts', 'utf8')
    .split('\n')
    .map((line) => line.split(' ')[1] ?? '')
    .filter((target) => target.startsWith(`${directory}/`));

/** Unmounts them, wherever they are now. */
function unmountAll(server) {
  for (const each of mountedBelow(server.dataDirectory)) {
    execFileSync('umount', ['--lazy', each], { stdio: 'ignore' });
  }
}

/** The server accepts as many jobs as its limit, although the directories of interrupted uploads are still there. */
async function freePlaces(context, server) {
  const form = { inputs: file('scan.nii'), options: steps({ gate: `${context.scratch}/never` }) };
  for (let place = 1; place <= places; place += 1) {
    const isIn = async () => (await trySubmit(server, 'witness', 'infer', form)).status === 200;
    await until('it can be had', isIn, 8000).catch(() =>
      context.violation(`Place ${place} of ${places} is kept by a refused upload that could not be removed`),
    );
  }
  await killAll(server);
}

/** Interrupted uploads that cannot be removed: their places are released all the same, now and later. */
async function stuckRemoval(context) {
  const server = await new Server(context, {
    flags: ['--max-jobs', String(places), '--cpu-slots', '1'],
  }).start();
  // An interrupted harness leaves none behind.
  const atExit = () => unmountAll(server);
  process.once('exit', atExit);
  try {
    for (let count = 0; count < places; count += 1) {
      const connection = await beginStuck(server);
      if (connection === null) {
        context.note('Mounting is not allowed here: no removal was made to fail');
        return;
      }
      connection.reset();
    }
    await new Promise((resolve) => setTimeout(resolve, 500));
    await freePlaces(context, server);
  } finally {
    unmountAll(server);
    process.off('exit', atExit);
    await server.close();
  }
}

async function inTurn(context, cases) {
  for (const [what, runCase] of Object.entries(cases)) {
    context.count(what);
    await context.attempt(what, () => runCase(context));
  }
}

export async function run(context) {
  const { random, rounds } = context;
  const limits = random.shuffle([256, 384, 512]).slice(0, times(rounds, 2) - 1);
  for (const limit of [200, ...limits]) {
    await context.attempt(`Silent sockets at ${limit} descriptors`, () => silentSockets(context, limit));
  }
  // Cases that measure CPU or memory run one after the other, cases that mostly wait run beside them.
  await Promise.all([
    inTurn(context, results),
    inTurn(context, { 'refused uploads that cannot be removed': stuckRemoval }),
  ]);
}
