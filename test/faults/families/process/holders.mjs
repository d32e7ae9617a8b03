import { readdirSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { file } from '../../../support/form.mjs';
import { filePart, multipartType, requestHead, submission } from '../../../support/multipart.mjs';
import { ended, job, request, steps, submit } from '../../support/api.mjs';
import { Connection } from '../../support/connection.mjs';
import { until } from '../../support/until.mjs';

const get = (target, ...headers) => requestHead('GET', target, headers);
const start = (server, settings, app = 'witness', more = {}) =>
  submit(server, app, 'infer', { inputs: file('scan.nii'), options: steps(settings), ...more });
const isRunningJob = (server, id) => async () => (await job(server, id)).status === 'running';

/** A connection that has sent a request and does not read the answer. */
async function unread(server, target) {
  const connection = await Connection.open(server.url);
  connection.socket.pause();
  await connection.write(get(target));
  await delay(300);
  return () => connection.close();
}

async function result(server, noise) {
  const id = await start(server, { noise });
  await ended(server, id);
  return id;
}

function closeAll(connections) {
  for (const each of connections) each.close();
}

/** Everything that could delay the end of a stopping server: each function sets it up, and returns a function that ends it. */
export const holders = {
  'connections that are kept alive': {
    async hold(_context, server) {
      const connections = await Promise.all(Array.from({ length: 20 }, () => Connection.open(server.url)));
      for (const each of connections) await each.write(get('/health', 'Connection: keep-alive'));
      await Promise.all(connections.map((each) => each.answer('/health')));
      return () => closeAll(connections);
    },
  },
  'connections that say nothing': {
    async hold({ random }, server) {
      const connections = await Promise.all(Array.from({ length: 50 }, () => Connection.open(server.url)));
      for (const each of connections) if (random.chance(0.5)) await each.write('GET /hea');
      return () => closeAll(connections);
    },
  },
  'an upload that has stopped half way': {
    async hold(context, server) {
      const connection = await Connection.open(server.url);
      const whole = submission('/apps/witness/infer', [filePart('inputs', 'scan.nii', 'v'.repeat(500_000))]);
      await connection.write(whole.subarray(0, context.random.integer(400, 400_000)));
      await delay(200);
      return () => connection.close();
    },
  },
  'an upload that goes on slowly': {
    async hold(_context, server) {
      const connection = await Connection.open(server.url);
      await connection.write(
        requestHead('POST', '/apps/witness/infer', [
          `Content-Type: ${multipartType}`,
          'Content-Length: 900000',
        ]),
      );
      const timer = setInterval(() => connection.socket.write('x'), 50);
      return () => {
        clearInterval(timer);
        connection.close();
      };
    },
  },
  'a download that is not read': {
    hold: async (_context, server) => unread(server, `/jobs/${await result(server, 30_000)}/result`),
  },
  'a log stream that is not read': {
    async hold(_context, server) {
      const id = await start(server, { do: 'chatter' }, 'rogue');
      await until('the job runs', isRunningJob(server, id));
      await delay(500);
      return unread(server, `/jobs/${id}/logs`);
    },
  },
  'log streams that are read': {
    async hold(context, server) {
      const id = await start(server, { gate: `${context.scratch}/never` });
      const connection = await Connection.open(server.url);
      await connection.write(get(`/jobs/${id}/logs`));
      await connection.until('accepted');
      return () => connection.close();
    },
  },
  'a result that is being packed': {
    async hold(_context, server) {
      const id = await start(server, { do: 'holes' }, 'rogue');
      await until('its command has ended', () => readdirSync(server.jobDirectory(id)).includes('exit.json'));
      await delay(500);
    },
  },
  'an nvidia-smi that hangs': {
    async hold(context, server, gpus) {
      gpus.mode = context.random.pick(['hang', 'grandchild', 'stubborn']);
      request(server, '/available_devices').catch(() => {});
      await delay(300);
    },
  },
  'a job that ignores SIGTERM': {
    async hold(_context, server) {
      const id = await start(server, { do: 'stubborn' }, 'rogue');
      await until('the job runs', isRunningJob(server, id));
      await delay(400);
    },
  },
  'a herd of processes that ignore SIGTERM': {
    async hold(_context, server) {
      await until('the job runs', isRunningJob(server, await start(server, { do: 'herd' }, 'rogue')));
      await delay(500);
    },
  },
  'a runner that is stopped': {
    async hold(context, server) {
      const id = await start(server, { gate: `${context.scratch}/never` });
      const runner = await until('its runner runs', () =>
        server.processes().find(({ command, id: own }) => own === id && /runner/.test(command)),
      );
      await delay(300);
      process.kill(runner.pid, 'SIGSTOP');
    },
  },
  'jobs that wait for a place': {
    async hold(context, server) {
      for (let count = 0; count < 8; count += 1) await start(server, { gate: `${context.scratch}/never` });
    },
    flags: ['--cpu-slots', '1'],
  },
};
