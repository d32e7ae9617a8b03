import net from 'node:net';
import { describe, expect, test } from 'vitest';
import {
  app,
  apps,
  devices,
  drainState,
  health,
  job,
  jobs,
  kill,
} from '../../../src/client/connection/api.js';
import type { Connection } from '../../../src/client/connection/connection.js';
import { json, type Received, ScriptedServer } from '../../support/scripted-server.js';
import { connectTo } from '../support/connect.js';

type Ask = (connection: Connection) => Promise<unknown>;

const questions: Readonly<Record<string, Ask>> = {
  '/health': (connection) => health(connection, 5),
  '/available_devices': devices,
  '/repo_apps_list': apps,
  '/repo_apps/x': (connection) => app(connection, 'x'),
  '/jobs/ab': (connection) => job(connection, 'ab'),
  '/jobs': jobs,
  '/jobs/ab/kill': (connection) => kill(connection, 'ab', 5),
};

const failureOf = (asked: Promise<unknown>): Promise<Error> =>
  asked.then(
    (answer) => {
      throw new Error(`it was accepted as an answer: ${JSON.stringify(answer)}`);
    },
    (error: Error) => error,
  );

/** Asks a server that answers with this body. */
async function ask(path: string, body: string | Buffer) {
  await using server = await ScriptedServer.start((_, response) => void response.end(body));
  await using connection = connectTo(server.url);
  const question = questions[path] as Ask;
  const end = await question(connection).then(
    (answer) => ({ answer, error: null }),
    (error: Error) => ({ answer: null, error }),
  );
  return { ...end, url: server.url, received: server.received as readonly Received[] };
}

const strange = [
  '{}',
  '[]',
  'null',
  '7',
  '"ok"',
  '',
  '<html>',
  '{"status":7,"jobs":7,"apps":7}',
  '{"__proto__":{"status":"ok"}}',
];

describe.each(Object.keys(questions))('an answer to %s', (path) => {
  test.each(strange)(`An answer to ${path} that is %s causes a clear error`, async (body) => {
    const { error, url, received } = await ask(path, body);
    expect(error).toMatchObject({ name: 'AnswerError', exitCode: 5, details: { fault: 'unusable' } });
    expect(error?.message.startsWith(`${url} answered ${path} with something `)).toBe(true);
    expect(error?.message).toMatch(/; is it a remote-app server\?$/);
    expect(received).toHaveLength(1);
  });

  test(`An endless answer to ${path} is cut off`, async () => {
    await using server = await ScriptedServer.start((_, response) => {
      const more = () => void (response.destroyed || response.write(Buffer.alloc(65_536, 0x20), more));
      more();
    });
    await using connection = connectTo(server.url);
    const error = await failureOf((questions[path] as Ask)(connection));
    expect(error.message).toMatch(/^\S+ answered \S+ with more than [\d.]+ [KM]iB; is it/);
  });
});

describe('an answer', () => {
  test.each([
    ['/jobs/ab', '{"job_id":"ab"}', 'status is missing'],
    [
      '/jobs/ab',
      '{"status":"paused"}',
      "status is 'paused', not queued, waiting, running, done, error or killed",
    ],
    ['/jobs/ab', '{"status":"done","job_id":"cd"}', "job_id is 'cd', not ab"],
    ['/jobs/ab', '{"status":"error","error":{}}', 'error is an object, not a text'],
    ['/jobs', '{"jobs":[{"status":"done"}]}', 'jobs.0.job_id is missing'],
    [
      '/jobs',
      '{"jobs":[{"job_id":"../x","status":"done"}]}',
      "jobs.0.job_id is '../x', which is not the id of a job",
    ],
    [
      '/jobs',
      '{"jobs":[{"job_id":"--all","status":"done"}]}',
      "jobs.0.job_id is '--all', which is not the id of a job",
    ],
    ['/jobs', `{"jobs":[${'0,'.repeat(200_000)}0]}`, 'jobs has more than 100000 entries'],
    ['/jobs/ab', '{"status":"done","bytes_kept":"1"}', "bytes_kept is '1', not a number"],
    ['/jobs/ab', '{"status":"done","bytes_kept":-1}', 'bytes_kept is smaller than 0'],
    ['/jobs/ab', '{"status":"done","bytes_kept":[]}', 'bytes_kept is a list, not a number'],
    ['/jobs/ab', '{"status":"done","bytes_kept":1e999}', 'bytes_kept is Infinity, not a number'],
    [
      '/available_devices',
      '{"devices_index":[1.5],"devices_name":[]}',
      'devices_index.0 is 1.5, not a whole number',
    ],
    ['/repo_apps/x', '{"app":"x"}', 'display_name is missing'],
    ['/repo_apps/x', '{"app":"x","available":false,"reason":7}', 'reason is 7, not a text'],
    ['/repo_apps_list', '{"apps":["\\ud800"]}', 'which is not the identifier of an app'],
    ['/repo_apps_list', '{"apps":[".."]}', 'which is not the identifier of an app'],
    ['/repo_apps_list', '{"apps":["."]}', 'which is not the identifier of an app'],
    ['/health', '{"status":"on fire\\n\\u001b[2J"}', "status is 'on fire\\x0a\\x1b[2J', not ok"],
  ])('The error names what is wrong with an answer to %s: %s: %s', async (path, body, problem) => {
    expect((await ask(path, body)).error?.message).toContain(problem);
  });

  test.each([
    ['/jobs/ab', '{"job_id":"ab","status":"done","error":null}', { job_id: 'ab', status: 'done', app: null }],
    ['/jobs/ab', '{"status":"done","bytes_kept":5e12}', { bytes_kept: 5e12 }],
    ['/jobs/ab', '{"status":"running","more":[1]}', { job_id: 'ab', status: 'running', assigned_gpus: [] }],
    [
      '/jobs',
      '{"jobs":[{"job_id":"f81d4fae-7dec-11d0-a765-00a0c91e6bf6","status":"error"}]}',
      [{ status: 'error' }],
    ],
    ['/jobs/ab/kill', '{"status":"killed"}', { job_id: 'ab', status: 'killed' }],
    ['/repo_apps/x', '{"app":"x","available":false}', { app: 'x', available: false, reason: null }],
    [
      '/repo_apps/x',
      '{"app":"x","display_name":"X","maximum_tta":4,"new":1}',
      { available: true, maximum_tta: 4 },
    ],
  ])('An answer to %s with fewer or more fields is accepted: %s', async (path, body, answer) => {
    expect((await ask(path, body)).answer).toMatchObject(answer);
  });

  test('The body of a refusal is read only up to the length of a sentence', async () => {
    await using server = await ScriptedServer.start((_, response) =>
      json(response, 500, { detail: 'x'.repeat(1e6) }, { 'retry-after': '1e9' }),
    );
    await using connection = connectTo(server.url);
    expect(await failureOf(health(connection, 5))).toMatchObject({
      message: `${server.url} answered with HTTP 500`,
      retryAfter: null,
    });
  });

  test.each([404, 405, 410, 501])(
    'An answer with status %i from another program is not a refusal',
    async (status) => {
      await using server = await ScriptedServer.start(
        (_, response) =>
          void response.writeHead(status, { 'content-type': 'text/html' }).end('<h1>Not here</h1>'),
      );
      await using connection = connectTo(server.url);
      expect(await failureOf(health(connection, 5))).toMatchObject({
        message: `${server.url} answered with HTTP ${status}, and not as the service does: is that its address?`,
        exitCode: 5,
        details: { http_status: status, fault: 'unusable' },
      });
    },
  );

  test.each([['{"detail":[{"loc":7,"msg":{}}]}'], ['{"detail":[[]]}'], ['{"detail":{}}'], ['[1]']])(
    'A refusal whose body is %s is reported by its status',
    async (body) => {
      await using server = await ScriptedServer.start(
        (_, response) => void response.writeHead(422).end(body),
      );
      await using connection = connectTo(server.url);
      expect((await failureOf(health(connection, 5))).message).toMatch(/HTTP 422$/);
    },
  );

  test.each([
    ['a banner of SSH', 'SSH-2.0-OpenSSH_9.2\r\n', /not HTTP/],
    ['a head without end', `HTTP/1.1 200 OK\r\n${`x: ${'y'.repeat(5000)}\r\n`.repeat(20)}`, /not HTTP/],
    [
      'interim answers without end',
      'HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n'.repeat(1000),
      /did not answer in time/,
    ],
    ['a byte at a time', 'HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n', /did not answer in time/],
  ])('A request whose answer is %s ends in time, and is sent once', async (_, text, message) => {
    let connections = 0;
    const timers: NodeJS.Timeout[] = [];
    const server = net.createServer((socket) => {
      connections += 1;
      socket.on('error', () => {}).once('data', () => socket.write(text));
      timers.push(setInterval(() => socket.write(text.startsWith('HTTP/1.1 103') ? text : ' '), 100));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as net.AddressInfo;
    await using connection = connectTo(`http://127.0.0.1:${port}`, { readTimeout: 1 });
    try {
      expect((await failureOf(job(connection, 'ab'))).message).toMatch(message);
      expect(connections).toBe(1);
    } finally {
      for (const timer of timers) clearInterval(timer);
      await connection.close();
      server.close();
    }
  });
});

test.each([
  [403, 'Only an admin may drain the server', /^Only an admin may drain the server$/],
  [404, 'Not Found', / cannot be drained, like KonfAI's server$/],
])('A refusal with %i of a drain request is explained', async (status, detail, message) => {
  await using server = await ScriptedServer.start((_, response) => json(response, status, { detail }));
  await using connection = connectTo(server.url);
  expect((await failureOf(drainState(connection))).message).toMatch(message);
});
