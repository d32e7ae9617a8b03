import { once } from 'node:events';
import { createServer } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { zip } from '../../../support/zip.mjs';

/** A server that answers every request in one strange way. */
export class StrangeServer {
  constructor(server) {
    this.server = server;
    this.url = `http://127.0.0.1:${server.address().port}`;
  }

  /** @param answer takes the request and the response; what it throws ends the connection */
  static async start(context, answer) {
    const server = createServer({ keepAliveTimeout: 1000 }, async (request, response) => {
      response.on('error', () => {});
      request.resume();
      try {
        await answer({ request, response, random: context.random });
      } catch {
        request.socket.destroy();
      }
    });
    server.on('connection', (socket) => socket.on('error', () => {}));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new StrangeServer(server);
  }

  close() {
    this.server.closeAllConnections();
    this.server.close();
  }
}

/** Writes a piece; resolves when there is room for another, and throws when nobody is there to read it. */
async function send(stream, piece) {
  if (stream.destroyed) throw new Error('the client has left');
  if (stream.write(piece)) return;
  const settled = new AbortController();
  const { signal } = settled;
  const either = ['drain', 'close'].map((name) => once(stream, name, { signal }));
  await Promise.race(either);
  settled.abort();
  await Promise.allSettled(either);
}

/** The same text again and again, up to so many mebibytes. */
async function flood(stream, text, mebibytes) {
  const block = Buffer.from(text.repeat(Math.ceil(2 ** 20 / text.length)));
  for (let count = 0; count < mebibytes; count += 1) await send(stream, block);
}

const type = { 'Content-Type': 'application/json' };
const events = { 'Content-Type': 'text/event-stream' };
const id = 'abcdef012345';

/** Answers with this body whatever is asked. */
const body =
  (value, status = 200, headers = type) =>
  ({ response }) => {
    response.writeHead(status, headers);
    response.end(typeof value === 'string' ? value : JSON.stringify(value));
  };

const envelope = (given) => ({
  job_id: id,
  status_url: '',
  logs_url: '',
  result_url: '',
  accepted_options: [],
  ...given,
});
const logCommands = ['logs', 'infer'];
const resultCommands = ['result'];

const wrongTypes = {
  status: 7,
  job_id: { a: 1 },
  jobs: { length: 3 },
  apps: 'all of them',
  devices_index: 'none',
  devices_name: null,
  used_gb: 'much',
  total_gb: [],
  error: [1],
  detail: { nested: true },
  message: 5,
  display_name: null,
};
const nulls = Object.fromEntries(Object.keys(wrongTypes).map((name) => [name, null]));
const lists = Object.fromEntries(Object.keys(wrongTypes).map((name) => [name, [null, 1, 'x', {}, []]]));

/** Writes an answer's bytes itself, as no server would. */
const raw =
  (write) =>
  async ({ request, random }) => {
    const { socket } = request;
    await write(socket, random);
    socket.destroy();
  };

/** The answers of a strange server: `isFine` if a client may accept it, `only` for the commands that it concerns. */
export const answers = {
  'an empty object': { answer: body({}) },
  'an empty list': { answer: body([]) },
  null: { answer: body('null') },
  'a text': { answer: body('"x"') },
  'a number': { answer: body('42') },
  'an empty body': { answer: body('') },
  'wrong types': { answer: body(wrongTypes) },
  'nothing but null': { answer: body(nulls) },
  'lists of anything': { answer: body(lists) },
  'half of an answer': { answer: body('{"jobs": [{"job_id": "abc') },
  'a web page': {
    answer: body('<!DOCTYPE html><html><body><h1>It works!</h1></body></html>', 200, {
      'Content-Type': 'text/html',
    }),
  },
  'a page of a proxy': {
    answer: body('<html><h1>502 Bad Gateway</h1></html>', 502, { 'Content-Type': 'text/html' }),
  },
  'an error of wrong types': { answer: body({ detail: { a: [1] } }, 422) },
  'an error of null': { answer: body('null', 500) },
  'an error without a body': { answer: body('', 418) },
  'an error of a megabyte': { answer: body({ detail: 'x'.repeat(2 ** 20) }, 400) },
  'bytes that are no text': {
    answer: ({ response, random }) => response.writeHead(200, type).end(random.bytes(3000)),
  },
  'a status of 204': { answer: body('', 204) },
  'a status of 206': { answer: body('{}', 206, { ...type, 'Content-Range': 'bytes 5-1/0' }) },
  'a status of 304': { answer: body('', 304) },
  'redirects in a circle': {
    answer: ({ request, response }) => response.writeHead(302, { Location: request.url }).end(),
  },
  'redirects without an end': {
    answer: ({ response, random }) => response.writeHead(307, { Location: `/jobs/${random.word()}` }).end(),
  },
  'JSON nested ten thousand deep': { answer: body(`${'['.repeat(10_000)}${']'.repeat(10_000)}`) },
  '700 MB of JSON': {
    async answer({ response }) {
      response.writeHead(200, type);
      await send(response, '{"status": "ok", "jobs": [], "apps": [], "error": "');
      await flood(response, 'x', 700);
      response.end('"}');
    },
  },
  'a list of 700 MB': {
    async answer({ response }) {
      response.writeHead(200, type);
      await send(response, '{"jobs": [');
      await flood(response, '{"job_id": "abcdef012345"},', 700);
      response.end('{}]}');
    },
  },
  'an error of 700 MB': {
    async answer({ response }) {
      response.writeHead(500, type);
      await flood(response, 'x', 700);
      response.end();
    },
  },
  'an answer of one byte at a time': {
    isFine: true,
    async answer({ response }) {
      response.writeHead(200, type);
      for (const each of '{"status":"ok","jobs":[],"apps":[]}') {
        await send(response, each);
        await delay(3);
      }
      response.end();
    },
  },
  'headers without an end': {
    answer: raw(async (socket) => {
      await send(socket, 'HTTP/1.1 200 OK\r\n');
      await flood(socket, 'X-Header: value\r\n', 50);
    }),
  },
  'a status line of noise': { answer: raw((socket, random) => send(socket, random.bytes(400))) },
  'a connection that is closed at once': { answer: raw(async () => {}) },
  'a length that is too large': {
    answer: raw((socket) => send(socket, 'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"status":"ok"}')),
  },
  'a length that is no number': {
    answer: raw((socket) => send(socket, 'HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{}')),
  },
  'chunks of no length': {
    answer: raw((socket) => send(socket, 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}')),
  },
  'a busy server that asks for a billion seconds': {
    answer: body({ detail: 'Server busy' }, 429, { ...type, 'Retry-After': '1000000000' }),
    isFine: true,
  },
  'a Retry-After that is no date': {
    answer: body({ detail: 'Later' }, 503, { ...type, 'Retry-After': 'tomorrow-ish' }),
    isFine: true,
  },
  'a result that is never ready': {
    // A job that runs would be waited for as long as it takes.
    answer: body({ job_id: id, status: 'done' }, 202),
    only: resultCommands,
    isFine: true,
  },
  'an archive of garbage': {
    answer: ({ response, random }) =>
      response.writeHead(200, { 'Content-Type': 'application/zip' }).end(random.bytes(5000)),
    only: resultCommands,
  },
  'an archive behind which the connection is closed': {
    isFine: true,
    only: resultCommands,
    answer({ response, random }) {
      const archive = zip([{ name: 'volume', content: random.bytes(random.integer(70_000, 200_000)) }]);
      const headers = { 'Content-Type': 'application/zip', 'Content-Length': archive.length };
      response.writeHead(200, { ...headers, Connection: 'close' }).end(archive);
    },
  },
  'an archive of nothing': {
    answer: body('', 200, { 'Content-Type': 'application/zip' }),
    only: resultCommands,
  },
  'an id that leads elsewhere': {
    answer: body(envelope({ job_id: '../../etc/passwd' })),
    only: ['infer', 'infer --detach'],
  },
  'an id with escapes': {
    answer: body(envelope({ job_id: '\x1b]0;x\x07abcdef' })),
    only: ['infer', 'infer --detach'],
  },
  'a log line of 100 MB': {
    only: logCommands,
    isFine: true,
    async answer({ request, response }) {
      if (request.method === 'POST') return body(envelope({}))({ response });
      response.writeHead(200, events);
      await send(response, 'data: ');
      await flood(response, 'x', 100);
      response.end('\n\ndata: __ERROR__ the end\n\n');
    },
  },
  'a log of a web page': {
    only: ['logs'],
    answer: body('<html>\n<body>hello</body>\n</html>', 200, { 'Content-Type': 'text/html' }),
  },
};
