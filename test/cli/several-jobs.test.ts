import { PassThrough } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import type { JobsOutput } from '../../src/cli/command/index.js';
import { watch } from '../../src/cli/jobs/watch.js';
import { CommandIo } from '../../src/cli/terminal/index.js';
import { Interrupted } from '../../src/client/errors.js';
import { connectTo } from '../client/support/connect.js';
import { json, ScriptedServer } from '../support/scripted-server.js';

/** A server whose jobs are all done, or were killed. */
async function connected(signal?: AbortSignal) {
  const server = await ScriptedServer.start(({ method, url }, response) => {
    const [, , job_id] = url.split('/');
    const status = method === 'POST' ? 'killed' : 'done';
    json(response, 200, { job_id, status, message: 'was killed', was_active: true });
  });
  const connection = connectTo(server.url, signal ? { signal } : {});
  onTestFinished(async () => {
    await connection[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
  });
  return { server, connection };
}

/** What is printed of jobs. */
function printing() {
  const streams = { stdin: new PassThrough(), stdout: new PassThrough(), stderr: new PassThrough() };
  const io = new CommandIo({ ...streams, env: {} });
  const lines: string[] = [];
  const output: JobsOutput = {
    io,
    json: false,
    explain: ({ message }) => ({ error: { message, exit_code: 1 } }),
    print: async (line) => void lines.push(line),
  };
  return { io, lines, output, written: async () => (await buffer(streams.stdout.end())).toString() };
}

test.each([
  ['SIGINT', true],
  ['SIGQUIT', true],
  ['SIGTERM', false],
  ['SIGHUP', false],
] as const)('A watch ended by %s counts as successful: %j', async (name, isFine) => {
  const controller = new AbortController();
  const { connection } = await connected(controller.signal);
  const { io, written } = printing();
  const reason = new Interrupted(name);
  let reads = 0;
  const watched = {
    read: async () => {
      reads += 1;
      if (reads === 3) controller.abort(reason);
      return reads;
    },
    lines: (value: number) => [`${value}`],
    change: (value: number) => String(Math.min(value, 2)),
  };
  const watching = watch(connection, io, watched, { every: 0.001, json: false });
  if (isFine) await watching;
  else await expect(watching).rejects.toBe(reason);
  // The third is as the second was.
  expect(await written()).toBe('1\n\n2\n');
});
