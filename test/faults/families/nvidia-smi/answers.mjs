import { setTimeout as delay } from 'node:timers/promises';
import { request } from '../../support/api.mjs';
import { FakeGpus } from '../../support/fake-gpus.mjs';
import { Server } from '../../support/server.mjs';
import { until } from '../../support/until.mjs';

const questions = 31;
/** Processes of nvidia-smi that may exist at once: a call, one that is being killed, and their children. */
const mostProcesses = 6;
/** Milliseconds: a driver that is not persistent loads in some seconds, so it may be waited for a while. */
const answerBound = 30_000;

const real = { devices: '0,1', total: 2 * 143_771 };

/** An answer that hides the failure: empty lists, a part of the GPUs, zeros. */
function lieOf(route, { status, text }) {
  const value = JSON.parse(text);
  if (status !== 200) return status >= 500 && value.detail?.length >= 10 ? null : `${status} ${text}`;
  if (route === '/available_devices') return value.devices_index?.join() === real.devices ? null : text;
  return value.total_gb > 0.9 * (real.total / 1024) ? null : text;
}

const routes = ['/available_devices', '/vram?devices=0,1'];

/** One mode: what both routes say. */
async function honest(context, server, mode) {
  for (const route of routes) {
    context.count('questions while nvidia-smi fails');
    await context.attempt(`${route} while nvidia-smi is '${mode}'`, async () => {
      const answer = await request(server, route, { limit: answerBound });
      const lie = lieOf(route, answer);
      context.check(
        lie === null,
        `With an nvidia-smi that is '${mode}' ${route} answers ${answer.status} ${lie?.slice(0, 200)}`,
      );
    });
  }
}

/** Many requests while it hangs: they share one call, and are all answered. */
async function manyAtOnce(context, server, gpus, mode) {
  gpus.mode = mode;
  const asked = Array.from({ length: questions }, (_, at) =>
    request(server, routes[at % 2], { limit: answerBound }).then(
      (answer) => lieOf(routes[at % 2], answer),
      () => `none within ${answerBound / 1000} s`,
    ),
  );
  context.count('questions while nvidia-smi hangs', questions);
  await delay(1500);
  const count = gpus.processes().length;
  context.highest('processes of a hanging nvidia-smi', count, 'count');
  context.check(
    count <= mostProcesses,
    `${questions} questions to an nvidia-smi that is '${mode}' left ${count} processes`,
  );
  const lies = (await Promise.all(asked)).filter((lie) => lie !== null);
  context.check(
    lies.length === 0,
    `With an nvidia-smi that is '${mode}' ${lies.length} of ${questions} answers were wrong: ${lies[0]}`,
  );
  gpus.mode = 'ok';
  await context.attempt(`/available_devices after nvidia-smi was '${mode}'`, () =>
    until(
      'the GPUs are listed again',
      async () => lieOf(routes[0], await request(server, routes[0])) === null,
      20_000,
    ),
  );
}

/** A server with an nvidia-smi that works at first; none of its processes is left. */
async function withGpus(context, run) {
  const gpus = new FakeGpus(context, 2);
  const server = await new Server(context, { environment: gpus.environment }).start();
  try {
    await run(server, gpus);
    gpus.mode = 'hang';
    request(server, routes[0]).catch(() => {});
    await delay(300);
  } finally {
    await server.close();
    const isGone = () => gpus.processes().length === 0;
    await until('no nvidia-smi is left', isGone, 5000).catch(() =>
      context.violation(`${gpus.processes().length} processes of nvidia-smi outlive the server`),
    );
    gpus.clear();
  }
}

/** What the server answers about its GPUs while nvidia-smi fails. */
export const answersWhileFailing = (context, modes) =>
  withGpus(context, async (server, gpus) => {
    for (const mode of modes) {
      gpus.mode = mode;
      // A call that began before may still be answered.
      await delay(300);
      await honest(context, server, mode);
    }
  });

/** The same, and what is left running, while it hangs. */
export const answersWhileHanging = (context, mode) =>
  withGpus(context, (server, gpus) => manyAtOnce(context, server, gpus, mode));
