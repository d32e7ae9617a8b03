import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { fakeService, jobId } from '../support/fake-service.js';
import { json } from '../support/scripted-server.js';

/** How a service treats a request for the change: it cuts its answer in the head or in the body, or it answers. */
type Turn = 'cut head' | 'cut body' | readonly [status: number, body: object];

/** Runs a command against a service that treats successive requests for the change like this. The last turn repeats. */
async function run(args: readonly string[], turns: readonly Turn[]) {
  let asked = 0;
  await using cli = await Cli.create();
  await using server = await fakeService({
    override: ({ method }, response, raw) => {
      if (method === 'GET') return false;
      const turn = turns[Math.min(asked, turns.length - 1)] ?? 'cut head';
      asked += 1;
      if (turn === 'cut head') raw.socket.end('HTTP/1.1 200 OK\r\ncontent-type: appl');
      else if (turn === 'cut body') {
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': 90 });
        response.write('{"job_id"', () => response.destroy());
      } else json(response, ...turn);
      return true;
    },
  });
  return { ...(await cli.run([...args, '--server', server.url])), asked };
}

const killed: Turn = [200, { job_id: jobId, status: 'killed', message: 'The job had ended' }];
const removed: Turn = [200, { job_id: jobId, status: 'removed' }];
const unknown: Turn = [404, { detail: 'Unknown job_id' }];
const expired: Turn = [410, { detail: `Job ${jobId} was removed` }];

describe.each([
  ['kill', killed],
  ['rm', removed],
] as const)('%s with a cut answer', (command, answer) => {
  test.each(['cut head', 'cut body'] as const)('A request with a cut answer is repeated: %s', async (cut) => {
    const { code, stdout, stderr, asked } = await run([command, jobId], [cut, answer]);
    expect([code, stdout, asked], stderr).toEqual([0, expect.stringContaining(jobId), 2]);
    expect(stderr).toMatch(/^The connection to .* broke: .*; trying again for another .*\n$/);
  });

  test('A request whose answer is always cut fails when the patience is over', async () => {
    const { code, asked, stderr } = await run([command, jobId, '--patience', '1'], ['cut body']);
    expect([code, asked > 1]).toEqual([5, true]);
    expect(stderr).toMatch(new RegExp(`^Error: ${jobId}: The connection to .* broke`, 'm'));
  });

  test('A request to a server that never answered completely fails after a few attempts', async () => {
    expect(await run([command, jobId], ['cut head'])).toMatchObject({ code: 5, asked: 5 });
  });

  test('A request that reached no server is not repeated', async () => {
    await using cli = await Cli.create();
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    const { code, stderr } = await cli.run([command, jobId, '--server', `http://127.0.0.1:${port}`]);
    expect([code, stderr]).toEqual([5, expect.not.stringContaining('trying again')]);
  });
});

describe('rm with a cut first answer', () => {
  test.each([
    ['410', expired],
    ['404', unknown],
  ])('rm takes a %s after a cut answer as proof that the job is removed', async (_, answer) => {
    const { code, stdout, asked } = await run(['rm', jobId], ['cut body', answer]);
    expect([code, stdout, asked]).toEqual([0, `${jobId}  removed\n`, 2]);
  });

  test('rm does not take a page without a job as proof that the job is removed', async () => {
    const { code, stdout } = await run(['rm', jobId], ['cut body', [404, {}]]);
    expect([code, stdout]).toEqual([5, '']);
  });
});

test('kill waits no longer for a cut answer than for the kill itself', async () => {
  const { code, asked } = await run(['kill', jobId, '--timeout', '1'], ['cut body']);
  expect([code, asked > 1]).toEqual([5, true]);
});
