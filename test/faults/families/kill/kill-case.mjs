import { setTimeout as delay } from 'node:timers/promises';
import { file } from '../../../support/form.mjs';
import { isRunning } from '../../../support/processes.mjs';
import { ended, request, steps, submit } from '../../support/api.mjs';
import { until } from '../../support/until.mjs';
import { attacks, processesOf } from './attacks.mjs';

/** Milliseconds in which a kill must be answered, whatever state the job is in: a grace of 3 s and some reserve. */
export const killBound = 20_000;

const inputs = file('scan.nii');

/** A job whose command runs, and the processes that it has. */
export async function running(context, server, device) {
  const deed = context.random.pick(['sleep', 'stubborn', 'fork']) === 'stubborn' ? 'stubborn' : 'sleep';
  const id = await submit(server, 'rogue', 'infer', { inputs, options: steps({ do: deed }), ...device });
  return until('its command runs', () => {
    try {
      const found = processesOf(server, id);
      const isCommand = (pid) => found.command.includes(pid);
      return server.processes().some(({ pid, command }) => isCommand(pid) && / do=/.test(command)) && found;
    } catch {
      return null;
    }
  });
}

/** Kills a job; null if no answer comes in time. */
export async function askKill(server, id) {
  const began = performance.now();
  const answer = await request(server, `/jobs/${id}/kill`, { method: 'POST', limit: killBound }).catch(
    () => null,
  );
  return answer && { ...answer, took: performance.now() - began };
}

/** Ends all processes of a job, so that none of a failed case is left. */
export function clear(processes) {
  for (const pid of processes) if (isRunning(pid)) process.kill(pid, 'SIGKILL');
}

/** One attack on a running job, and its kill. Returns whether the GPU is free again. */
export async function killCase(context, server, what, gpu) {
  const { random } = context;
  const job = await running(context, server, { gpu });
  const all = [job.runner, ...job.command];
  attacks[what](job);
  if (random.chance(0.5)) await delay(random.integer(0, 1500));
  const isTwice = random.chance(0.5);
  const answers = await Promise.all(Array.from({ length: isTwice ? 2 : 1 }, () => askKill(server, job.id)));
  for (const answer of answers) {
    if (answer === null)
      context.violation(`A kill was not answered within ${killBound / 1000} s, where ${what}`);
    else context.highest('longest kill', answer.took, 'ms');
  }
  const left = () => all.filter(isRunning);
  await until('it is gone', () => left().length === 0, 5000).catch(() =>
    context.violation(`After a kill where ${what}, ${left().length} of ${all.length} processes still run`),
  );
  clear(all);
  const after = await submit(server, 'witness', 'infer', { inputs, gpu });
  const view = await ended(server, after, 15_000).catch(() => null);
  const isFree = view?.status === 'done';
  context.check(
    isFree,
    `After a kill where ${what}, the next job does not get GPU ${gpu}: ${view?.status ?? 'it waits'}`,
  );
  return isFree;
}
