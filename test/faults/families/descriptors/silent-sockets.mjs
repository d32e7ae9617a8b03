import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { file } from '../../../support/form.mjs';
import { checkGpus, checkWitness } from '../../invariants.mjs';
import { ended, isFinal, job, listJobs, request, steps, submit } from '../../support/api.mjs';
import { Connection } from '../../support/connection.mjs';
import { Server } from '../../support/server.mjs';
import { until } from '../../support/until.mjs';

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
export async function silentSockets(context, limit) {
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
