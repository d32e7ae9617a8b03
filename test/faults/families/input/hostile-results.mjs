import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, statfsSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import path from 'node:path';
import { remoteApp } from '../../support/client.mjs';
import { hostileArchives, isHarmlessToClients } from './archives.mjs';

/** A service whose jobs are all done, and whose results are what a malicious server would send. */
async function hostileService() {
  const archives = new Map();
  const server = createServer((request, response) => {
    const send = (type, body) => {
      response.writeHead(200, { 'content-type': type, 'content-length': Buffer.byteLength(body) });
      response.end(body);
    };
    const id = request.url.split('/')[2];
    if (request.url.endsWith('/result')) send('application/zip', archives.get(id));
    else if (request.url.includes('/logs')) send('text/event-stream', 'data: done\n\ndata: __DONE__\n\n');
    else send('application/json', JSON.stringify({ job_id: id, status: 'done', error: null }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    serve: (id, bytes) => archives.set(id, bytes),
    close: () => server.close(),
  };
}

/** Files outside the result's directory that were not there before. */
const around = (directory) =>
  readdirSync(directory, { recursive: true }).filter((name) => !name.startsWith('Output'));

async function extract(context, service, what, bytes) {
  const home = path.join(context.scratch, `client-${context.serial()}`);
  const output = path.join(home, 'deep', 'Output');
  mkdirSync(output, { recursive: true });
  writeFileSync(path.join(home, 'deep', 'mine'), 'as it was');
  const before = around(path.join(home, 'deep'));
  const id = context.serial().toString(16).padStart(12, '0');
  service.serve(id, bytes);
  const { bavail, bsize } = statfsSync(home);
  const { code, stderr } = await remoteApp(context, ['result', id, '--output', output], { url: service.url });
  context.count('hostile archives in results');
  // What is no archive at all came from something other than the service.
  const isRefused = code === 1 || code === 5;
  context.check(
    (isRefused || (code === 0 && isHarmlessToClients(what))) && stderr !== '',
    `A result with ${what} ended the client with ${code}: ${stderr}`,
  );
  context.check(!/\n\s+at /.test(stderr), `A result with ${what} showed a stack: ${stderr}`);
  const after = around(path.join(home, 'deep'));
  const outside = ['/tmp/remote-app-escaped', path.join(home, 'escaped')].filter((each) => existsSync(each));
  context.check(
    after.join() === before.join() && outside.length === 0,
    `A result with ${what} wrote ${after} ${outside}`,
  );
  const taken = (bavail * bsize - statfsSync(home).bavail * bsize) / 2 ** 20;
  context.highest('disk taken by a hostile result', Math.max(0, taken) * 2 ** 20, 'bytes');
}

/** The client extracts what a server sends: nothing is written outside the directory, and no link is made. */
export async function hostileResults(context) {
  const service = await hostileService();
  // The client accepts what its disk can hold, so a bomb with true sizes is not hostile to it.
  const isForServers = /bomb that says so|bomb in small/;
  const all = Object.entries(hostileArchives(2 ** 20)).filter(([what]) => !isForServers.test(what));
  // Every one of them in a full run, some of them in a smaller one; three clients at a time.
  const chosen = context.rounds >= 10 ? all : context.random.shuffle(all).slice(0, 3 * context.rounds);
  const lane = async () => {
    for (let next = chosen.shift(); next !== undefined; next = chosen.shift()) {
      const [what, given] = next;
      const bytes = typeof given === 'function' ? given() : given;
      await context.attempt(`A result with ${what}`, () => extract(context, service, what, bytes));
    }
  };
  await Promise.all([lane(), lane(), lane()]);
  service.close();
}
