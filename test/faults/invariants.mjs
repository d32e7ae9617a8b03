/** What must hold for a server's jobs, processes, devices and files, whatever happened to it. */
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { isRunning } from '../support/processes.mjs';
import { unzip } from '../support/unzip.mjs';
import { job, listJobs, logOf, request } from './support/api.mjs';
import { until } from './support/until.mjs';

/** Milliseconds in which a removal under way, or a second runner of a job, must be over. */
const settling = 30_000;

/** Whether `look` finds nothing any more, in time. */
async function settles(context, what, look) {
  let left = [];
  const isNone = async () => {
    left = await look();
    return left.length === 0;
  };
  return until(what, isNone, settling, 50).catch(() => {
    context.violation(`${what}: ${left.slice(0, 3).join('; ')}`);
    return false;
  });
}

const isActive = ({ status }) => !['done', 'error', 'killed'].includes(status);

/** Checks that every directory belongs to a job. */
export const checkDirectories = (context, server, uploading = 0) =>
  settles(context, 'A directory belongs to no job', async () => {
    const before = server.jobDirectories();
    const known = new Set((await listJobs(server)).map(({ job_id }) => job_id));
    const left = before.filter((id) => !known.has(id) && existsSync(server.jobDirectory(id)));
    return left.length <= uploading ? [] : left;
  });

/** Checks that every process belongs to an active job. Kills the others. */
export async function checkProcesses(context, server) {
  let orphans = [];
  const look = async () => {
    const active = new Set((await listJobs(server)).filter(isActive).map(({ job_id }) => job_id));
    orphans = server.processes().filter(({ id }) => !active.has(id));
    return orphans.map(({ pid, id, command }) => `${pid} of job ${id}: ${command.slice(0, 120)}`);
  };
  if (await settles(context, 'A process belongs to no active job', look)) return;
  // So that each is reported only once.
  for (const { pid } of orphans) if (isRunning(pid)) process.kill(pid, 'SIGKILL');
}

/** Whether the record of a job says that somebody asked to kill it. */
const isKillAsked = (directory) =>
  JSON.parse(readFileSync(path.join(directory, 'job.json'), 'utf8')).killRequested;

/**
 * No GPU has two jobs at once. A job is listed as running until its end is saved, and has given its GPUs back before that:
 * once its command has ended, or when it was killed before its command began. Of the latter there is no exit.json, nor
 * any process.
 */
export async function checkGpus(context, server) {
  const taken = new Map();
  const running = (await listJobs(server)).filter(({ status }) => status === 'running');
  const alive = new Set(server.processes().map(({ id }) => id));
  const hasEnded = ({ job_id: id, run_seconds }) => {
    const directory = server.jobDirectory(id);
    if (existsSync(path.join(directory, 'exit.json'))) return true;
    return !alive.has(id) && (run_seconds !== null || isKillAsked(directory));
  };
  for (const view of running.filter((each) => !hasEnded(each))) {
    for (const id of view.assigned_gpus) {
      context.check(
        !taken.has(id),
        `GPU ${id} is held by the jobs ${taken.get(id)} and ${view.job_id} at once`,
      );
      taken.set(id, view.job_id);
    }
  }
}

/** The lines that the witness app prints, without the service's own, are exactly once there and in order. */
function checkLines(context, { id, lines }, log, isCut) {
  const own = log.filter((line) => line.startsWith('[remote-app] '));
  const repeated = own.find((line, index) => own.indexOf(line) !== index);
  context.check(repeated === undefined, `The log of job ${id} repeats '${repeated}'`);
  const accepted = `[remote-app] Remote job ${id} accepted`;
  context.check(log[0]?.startsWith(accepted), `The log of job ${id} begins with '${log[0]}'`);
  const app = log.slice(0, -1).filter((line) => !line.startsWith('[remote-app] '));
  const expected = Array.from(
    { length: isCut ? app.length : lines },
    (_, at) => `line ${at + 1} of ${lines}`,
  );
  context.check(
    app.join('\n') === expected.join('\n'),
    `The log of job ${id} lacks or repeats a line: ${app.length} of ${lines} lines, ends with '${app.at(-1)}'`,
  );
}

/** Checks that a downloaded archive is complete and contains the input of the job. */
export function checkArchive(context, { id, content, noise }, bytes) {
  try {
    const files = unzip(bytes);
    context.check(
      String(files.get('answer')) === content,
      `The result of job ${id} is not that of its input`,
    );
    const size = files.get('noise')?.length ?? 0;
    context.check(size === noise * 1024, `The result of job ${id} has ${size} bytes of ${noise} KiB`);
  } catch (cause) {
    context.violation(`A torn result of job ${id} was served: ${cause.message}`);
  }
}

/**
 * A job that has ended: its end is the one that its command came to, its log is whole, its result is there.
 * @param expected id, nonce, lines, code, content, noise, isKillAsked, isKillConfirmed
 */
export async function checkEnded(context, server, expected) {
  const { id, code, isKillAsked, isKillConfirmed } = expected;
  const { status, error } = await job(server, id);
  const log = await logOf(server, id);
  const marker = status === 'done' ? '__DONE__' : `__ERROR__ ${error}`;
  context.check(log.at(-1) === marker, `The log of job ${id} (${status}) ends with '${log.at(-1)}'`);
  if (status === 'killed' || isKillConfirmed) {
    context.check(
      status === 'killed' && isKillAsked,
      `Job ${id} is ${status}; killed by nobody, or not killed`,
    );
    checkLines(context, expected, log, true);
    return;
  }
  const end = code === 0 ? null : `Subprocess failed (exit code ${code})`;
  const isRight = status === (code === 0 ? 'done' : 'error') && error === end;
  context.check(isRight, `Job ${id} ended as ${status} (${error}) where its command exited with ${code}`);
  checkLines(context, expected, log, false);
  if (status !== 'done') return;
  const result = await request(server, `/jobs/${id}/result`);
  if (result.status === 200) checkArchive(context, expected, result.bytes);
  else context.violation(`Job ${id} is done and its result answered ${result.status}: ${result.text}`);
}

/** Checks what the commands recorded themselves: none started twice, and those of done jobs reached their end. */
export function checkWitness(context, file, jobs) {
  const told = existsSync(file) ? readFileSync(file, 'utf8').trimEnd().split('\n') : [];
  const times = (line) => told.filter((each) => each === line).length;
  const nonces = new Map(jobs.map((each) => [each.nonce, each]));
  for (const line of new Set(told.filter((each) => each.startsWith('start ')))) {
    const [, id, nonce] = line.split(' ');
    const expected = nonces.get(nonce);
    context.check(
      expected !== undefined && expected.id === id,
      `Job ${id} ran, which nobody was told of (${nonce})`,
    );
  }
  for (const { id, nonce, isKillAsked } of jobs) {
    const [starts, ends] = [times(`start ${id} ${nonce}`), times(`end ${id} ${nonce}`)];
    const isOnce = isKillAsked ? starts <= 1 && ends <= starts : starts === 1 && ends === 1;
    context.check(isOnce, `Job ${id} began ${starts} times and ended ${ends} times`);
  }
}
