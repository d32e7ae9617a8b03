/** SIGKILL to the server at random moments, under a workload of jobs in every state; then a new one. */
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { file } from '../../support/form.mjs';
import { filePart, submission } from '../../support/multipart.mjs';
import { times } from '../context.mjs';
import {
  checkArchive,
  checkDirectories,
  checkEnded,
  checkGpus,
  checkProcesses,
  checkWitness,
} from '../invariants.mjs';
import { isFinal, job, kill, listJobs, request, steps, submit, trySubmit } from '../support/api.mjs';
import { Connection } from '../support/connection.mjs';
import { letTimePass } from '../support/pass-time.mjs';
import { Server } from '../support/server.mjs';
import { until } from '../support/until.mjs';

function read(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return undefined;
  }
}

/** What a job was doing when the server died, judged by its directory. */
function stateAtDeath(directory) {
  const has = (name) => existsSync(path.join(directory, name));
  const record = read(path.join(directory, 'job.json'));
  if (record === undefined) return 'uploading, or being removed';
  if (['done', 'error', 'killed'].includes(record.state)) return 'in grace';
  if (record.killRequested) return 'being killed';
  if (record.state !== 'running') return record.state;
  if (has('exit.json')) return 'ended or packing';
  return has('runner.json') ? 'running' : 'starting';
}

/** Whether the error is a broken connection, as every client sees when the server is killed. */
const isCut = (cause) =>
  cause instanceof TypeError || cause.name === 'TimeoutError' || cause.name === 'AbortError';

/** Runs what may be cut by the server's death; null where it was. */
async function unlessCut(run) {
  try {
    return await run();
  } catch (cause) {
    if (isCut(cause)) return null;
    throw cause;
  }
}

/** The submitted jobs and how each must end, across all deaths of a server. */
class Ledger {
  jobs = [];

  constructor(context, witness) {
    this.context = context;
    this.witness = witness;
  }

  /** Jobs whose end has not been seen yet. */
  get open() {
    return this.jobs.filter(({ isVerified }) => !isVerified);
  }

  /** A random job: short or long, on a GPU or not, with a large or a small result. */
  plan() {
    const { random } = this.context;
    const nonce = random.word(12);
    const isLong = random.chance(0.25);
    const planned = {
      nonce,
      id: null,
      lines: random.integer(1, isLong ? 40 : 12),
      pause: isLong ? '0.03' : '',
      noise: random.chance(0.2) ? random.integer(500, 4000) : 0,
      code: random.chance(0.15) ? random.integer(1, 120) : 0,
      content: `${nonce} ${random.word(random.integer(1, 200))}`,
      devices: random.pick([{ cpu: '1' }, { cpu: '2' }, { gpu: '0' }, { gpu: '1' }, { gpu: '0,1' }, {}]),
      isKillAsked: false,
      isKillConfirmed: false,
      isVerified: false,
    };
    this.jobs.push(planned);
    return planned;
  }

  /** Submits a planned job, again under the same key if an earlier attempt was cut. */
  async submit(server, planned) {
    const { nonce, lines, pause, noise, code, content, devices } = planned;
    const options = steps({ witness: this.witness, nonce, lines, pause: pause || '0', noise, code });
    const form = { inputs: file('scan.nii', content), options, ...devices };
    const answer = await unlessCut(() =>
      trySubmit(server, 'witness', 'infer', form, { 'idempotency-key': nonce }),
    );
    if (answer === null) return;
    if (answer.status === 200) {
      const { job_id: id } = JSON.parse(answer.text);
      const isSame = planned.id === null || planned.id === id;
      this.context.check(isSame, `The key ${nonce} has made two jobs: ${planned.id} and ${id}`);
      planned.id = id;
      return;
    }
    this.context.violation(`A submission was answered with ${answer.status}: ${answer.text}`);
  }

  async kill(server, planned) {
    planned.isKillAsked = true;
    const reply = await unlessCut(() => kill(server, planned.id));
    if (reply?.status === 'killed') planned.isKillConfirmed = true;
  }

  /** Downloads a result in full, unless the server's death cuts it. */
  async download(server, planned) {
    return unlessCut(() => request(server, `/jobs/${planned.id}/result`));
  }

  /** Submits again the jobs whose submission was never answered. */
  async settle(server) {
    for (const planned of this.jobs.filter(({ id }) => id === null)) await this.submit(server, planned);
  }

  /** Checks that every accepted job still exists. */
  async checkKnown(server) {
    const known = new Set((await listJobs(server)).map(({ job_id }) => job_id));
    for (const { id } of this.open) {
      this.context.check(id === null || known.has(id), `Job ${id} was accepted and is lost`);
    }
  }

  /** Checks the jobs that have ended since the last call. Returns how many have not ended. */
  async verify(server) {
    const views = new Map((await listJobs(server)).map((view) => [view.job_id, view]));
    for (const planned of this.open) {
      const view = views.get(planned.id);
      if (view === undefined || !isFinal(view)) continue;
      await checkEnded(this.context, server, planned);
      planned.isVerified = true;
    }
    return this.open.length;
  }
}

const deathsInTenRounds = 200;
/** Deaths of the server between two checks of all jobs. */
const deathsUntilCalm = 25;
const deathsInCalm = 4;
const maxOpenJobs = 14;

/** Starts an upload that is in progress when the server dies. */
async function cutUpload(context, server) {
  await unlessCut(async () => {
    const connection = await Connection.open(server.url);
    const whole = submission('/apps/witness/infer', [filePart('inputs', 'cut.nii', 'x'.repeat(5000))]);
    await connection.write(whole.subarray(0, context.random.integer(1, whole.length - 1)));
  }).catch(() => {});
}

/** Starts a reader that is connected when the server dies. */
const followLog = (server, planned) => unlessCut(() => request(server, `/jobs/${planned.id}/logs`));

/** What clients do at the same time while the server runs. */
function workload(context, server, ledger) {
  const { random } = context;
  const begun = [];
  const room = maxOpenJobs - ledger.open.length;
  for (let more = Math.min(room, random.integer(1, 3)); more > 0; more -= 1) {
    begun.push(ledger.submit(server, ledger.plan()));
  }
  const accepted = ledger.open.filter(({ id }) => id !== null);
  const unanswered = ledger.open.filter(({ id, isVerified }) => id === null && !isVerified).slice(0, 2);
  for (const planned of unanswered) begun.push(ledger.submit(server, planned));
  if (random.chance(0.5)) begun.push(cutUpload(context, server));
  if (accepted.length > 0 && random.chance(0.2)) begun.push(ledger.kill(server, random.pick(accepted)));
  if (accepted.length > 0 && random.chance(0.5)) begun.push(followLog(server, random.pick(accepted)));
  const ended = ledger.jobs.filter(
    ({ id, code, isVerified, isSwept }) => id && code === 0 && isVerified && !isSwept,
  );
  if (ended.length > 0 && random.chance(0.5)) {
    const chosen = random.pick(ended);
    begun.push(
      ledger.download(server, chosen).then((answer) => {
        if (answer?.status === 200) checkArchive(context, chosen, answer.bytes);
      }),
    );
  }
  return Promise.all(begun);
}

/** Kills the server and notes what it was doing. */
async function die(context, server) {
  await server.kill();
  server.onDeath();
  context.count('deaths of the server');
  for (const id of server.jobDirectories()) {
    context.count(`  a job ${stateAtDeath(server.jobDirectory(id))}`);
  }
}

/** @param grace seconds; long enough for every job to be looked at, unless its removal is what is to be seen */
async function restart(context, server, grace = 600) {
  const before = performance.now();
  await server.start(['--grace', String(grace)]);
  await request(server, '/health');
  context.highest('longest recovery', performance.now() - before, 'ms');
}

async function checkNow(context, server, ledger) {
  await ledger.checkKnown(server);
  // Each node of a cluster has its own GPU 0.
  if (context.cluster === null) await checkGpus(context, server);
  await checkDirectories(context, server);
  await checkProcesses(context, server);
}

/** One life of the server. Some end before it listens. */
async function live(context, server, ledger) {
  const { random } = context;
  if (random.chance(0.15)) {
    server.spawn(['--grace', '600']);
    await delay(random.integer(50, 700));
    return die(context, server);
  }
  await restart(context, server);
  await checkNow(context, server, ledger);
  if (random.chance(0.6)) await ledger.verify(server);
  const busy = workload(context, server, ledger);
  // Slurm takes a second to start a job.
  const longer = context.cluster === null ? 1 : 4;
  await delay(random.integer(0, random.chance(0.25) ? 1500 : 400) * longer);
  await die(context, server);
  await busy;
}

/** Both GPUs and all CPU slots can be granted: no ended job holds one. */
async function checkDevicesAreFree(context, server) {
  for (const devices of [{ gpu: '0,1' }, { cpu: '2' }]) {
    const form = { inputs: file('free.nii'), options: steps({ lines: 1 }), ...devices };
    const id = await submit(server, 'witness', 'infer', form);
    await until(`the idle devices ${JSON.stringify(devices)} are granted and job ${id} ends`, async () =>
      isFinal(await job(server, id)),
    ).catch((cause) => context.violation(cause.message));
  }
}

/** Waits for the end of all jobs and checks them; then checks their removal, with more deaths meanwhile. */
async function calm(context, server, ledger, witness) {
  await restart(context, server);
  await ledger.settle(server);
  await until('every accepted job ends', async () => (await ledger.verify(server)) === 0, 120_000);
  await checkNow(context, server, ledger);
  checkWitness(context, witness, ledger.jobs);
  await checkDevicesAreFree(context, server);
  for (let deaths = 0; deaths < 2; deaths += 1) {
    await die(context, server);
    letTimePass(server);
    await restart(context, server, 1);
    await delay(context.random.integer(980, 1060));
  }
  await die(context, server);
  await restart(context, server, 1);
  await until('every job is removed', () => server.jobDirectories().length === 0).catch(() =>
    context.violation(
      `Directories are left when every job has expired: ${server.jobDirectories().join(', ')}`,
    ),
  );
  for (const planned of ledger.jobs) {
    if (planned.isSwept) continue;
    planned.isSwept = true;
    const { status } = await request(server, `/jobs/${planned.id}`);
    context.check(status === 410, `The expired job ${planned.id} answers ${status}`);
  }
  await die(context, server);
}

/** The same devices on this machine, or on a cluster whose nodes share the data directory. */
function serverOf(context) {
  const { cluster } = context;
  if (cluster === null) return new Server(context, { gpus: 2, flags: ['--cpu-slots', '2'] });
  return new Server(context, {
    dataDirectory: path.join(cluster.shared, `data-${context.serial()}`),
    flags: ['--executor', 'slurm'],
    environment: cluster.environment,
  });
}

/** A data directory and all its successive servers. */
async function world(context, deaths) {
  const witness = path.join(context.scratch, `witness-${context.serial()}`);
  const server = serverOf(context);
  const ledger = new Ledger(context, witness);
  const died = { times: 0 };
  server.onDeath = () => {
    died.times += 1;
  };
  try {
    while (died.times < deaths) {
      const untilCalm = Math.min(deaths, died.times + deathsUntilCalm) - deathsInCalm;
      do await live(context, server, ledger);
      while (died.times < untilCalm);
      await calm(context, server, ledger, witness);
    }
  } finally {
    context.count('jobs under the deaths', ledger.jobs.length);
    await server.start().catch(() => {});
    await server.close();
  }
}

export async function run(context) {
  const deaths = times(context.rounds, deathsInTenRounds);
  // Most of the time is waiting, so two data directories are tested at the same time.
  const halves = [Math.ceil(deaths / 2), Math.floor(deaths / 2)].filter((count) => count > 0);
  await Promise.all(halves.map((count) => world(context, count)));
}
