/** Pages of other sites, in a browser on this machine: on a server without a token they can do nothing. */
import path from 'node:path';
import { file } from '../../support/form.mjs';
import { filePart, multipart, multipartType } from '../../support/multipart.mjs';
import { times } from '../context.mjs';
import { isFinal, job, listJobs, steps, submit } from '../support/api.mjs';
import { Connection } from '../support/connection.mjs';
import { Server } from '../support/server.mjs';
import { foreign, ours } from './browser/senders.mjs';

const casesInTenRounds = 100;
const body = multipart([filePart('inputs', 'scan.nii')]);

/** Every route that a page could use, with a request for it. */
const targets = (id) => [
  ...[
    '/health',
    '/jobs',
    `/jobs/${id}`,
    `/jobs/${id}/result`,
    '/available_devices',
    '/ram',
    '/vram?devices=0',
  ].map((target) => ['GET', target]),
  ['GET', '/repo_apps_list'],
  ['GET', '/repo_apps/witness'],
  ['GET', '/repo_apps_config/witness'],
  ['GET', `/jobs/${id}/logs`],
  ['GET', '/nothing/here'],
  ['HEAD', '/jobs'],
  ['HEAD', `/jobs/${id}/result`],
  ['OPTIONS', '/jobs'],
  ['OPTIONS', '/apps/witness/infer'],
  ['POST', `/jobs/${id}/kill`],
  ['DELETE', `/jobs/${id}`],
  ['POST', '/apps/witness/infer'],
  ['POST', '/apps/witness/infer'],
];

/** One request, written by hand: no HTTP client would send all of these headers. */
async function send(server, method, target, { headers, version = '1.1', authority }) {
  const connection = await Connection.open(server.url);
  const isForm = method === 'POST' && target.endsWith('/infer');
  const form = isForm ? [`Content-Type: ${multipartType}`, `Content-Length: ${body.length}`] : [];
  const token = server.token === null ? [] : [`Authorization: Bearer ${server.token}`];
  const preflight = method === 'OPTIONS' ? ['Access-Control-Request-Method: POST'] : [];
  const lines = [
    `${method} ${authority === undefined ? '' : `http://${authority}`}${target} HTTP/${version}`,
    ...headers,
    ...form,
    ...token,
    ...preflight,
    'Connection: close',
    '',
    '',
  ];
  try {
    await connection.write(
      Buffer.concat([Buffer.from(lines.join('\r\n'), 'latin1'), isForm ? body : Buffer.alloc(0)]),
    );
    await connection.until('\r\n\r\n');
    // The log stream of a running job does not end: its head is enough.
    return {
      status: Number(connection.received.toString('latin1', 9, 12)),
      text: connection.received.toString(),
    };
  } finally {
    connection.close();
  }
}

async function withJob(context, options, run) {
  const server = await new Server(context, options).start();
  const gate = path.join(context.scratch, 'never');
  try {
    const id = await submit(server, 'witness', 'infer', {
      inputs: file('scan.nii'),
      options: steps({ gate }),
    });
    await run(server, id);
  } finally {
    await server.close();
  }
}

/** Requests that must be refused and change nothing. */
async function refused(context, server, id, count) {
  const { random } = context;
  const port = new URL(server.url).port;
  const all = foreign(random, port);
  for (let at = 0; at < count; at += 1) {
    const [what, sender] = all[at % all.length];
    const [method, target] = random.pick(targets(id));
    context.count('requests of other sites');
    await context.attempt(`${method} ${target} with ${what}`, async () => {
      const { status, text } = await send(server, method, target, sender);
      const isAllowed = [403, ...(sender.also ?? []), ...(method === 'OPTIONS' ? [404, 405] : [])];
      context.check(
        isAllowed.includes(status),
        `${method} ${target.replace(id, 'ID')} with ${what} was answered with ${status}`,
      );
      const allowsOrigin = /^access-control-allow-origin/im.test(text);
      context.check(
        !allowsOrigin,
        `${method} ${target.replace(id, 'ID')} with ${what} lets other sites read`,
      );
    });
  }
  const view = await job(server, id);
  context.check(!isFinal(view), `A request of another site made a job ${view.status}`);
  const jobs = await listJobs(server);
  context.check(jobs.length === 1, `Requests of other sites submitted ${jobs.length - 1} jobs`);
}

/** Requests of people and programs on this machine: served. */
async function served(context, server, id) {
  for (const [what, sender] of ours(new URL(server.url).port)) {
    context.count('requests of one’s own');
    const [method, target] = context.random.pick(targets(id).slice(0, 2));
    const { status } = await send(server, method, target, sender);
    context.check(status === 200, `${method} ${target} with ${what} was answered with ${status}`);
  }
}

export async function run(context) {
  const count = times(context.rounds, casesInTenRounds);
  await withJob(context, {}, async (server, id) => {
    await refused(context, server, id, count);
    await served(context, server, id);
  });
  // Only the token counts: a request with it may come from any site.
  await withJob(context, { token: context.random.word(30) }, async (server) => {
    for (const [what, sender] of foreign(context.random, new URL(server.url).port)) {
      if (sender.also !== undefined) continue;
      const { status } = await send(server, 'GET', '/jobs', sender);
      context.check(status === 200, `With the token GET /jobs with ${what} was answered with ${status}`);
      const without = await send({ url: server.url, token: null }, 'GET', '/jobs', sender);
      context.check(
        without.status === 401,
        `Without the token GET /jobs with ${what} was answered with ${without.status}`,
      );
      context.count('requests with a token');
    }
  });
}
