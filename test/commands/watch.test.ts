import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { type Fake, fakeService } from '../support/fake-service.js';
import { ScreenTerminal } from '../support/screen-terminal.js';
import { json, type ScriptedServer } from '../support/scripted-server.js';
import { until } from '../support/until.mjs';

const quick = ['--watch', '--every', '0.1'];

/** A service whose jobs have these states; without states, the answer of a proxy that cannot reach the server. */
async function jobsWith(first: readonly string[]) {
  const world: { states: readonly string[] | null } = { states: first };
  const override: Fake['override'] = ({ url }, response) => {
    if (url !== '/jobs') return false;
    if (world.states === null) json(response, 502, {});
    else
      json(response, 200, { jobs: world.states.map((status, index) => ({ job_id: `job${index}`, status })) });
    return true;
  };
  return { world, server: await fakeService({ override }) };
}

/** Waits until the server was asked twice more. */
async function askedAgain(server: ScriptedServer): Promise<void> {
  const before = server.received.length;
  await until('the server is asked twice more', () => server.received.length > before + 1);
}

describe('jobs --watch', () => {
  test('jobs --watch redraws its block in place on a terminal, and writes nothing if nothing changes', async () => {
    await using cli = await Cli.create();
    const { world, server } = await jobsWith(['running', 'waiting']);
    await using _ = server;
    await using terminal = new ScreenTerminal(cli, ['jobs', ...quick, '--server', server.url]);
    await terminal.shows(/^job0 +running/);
    await askedAgain(server);
    const { length } = terminal.written;
    await askedAgain(server);
    expect(terminal.written.length).toBe(length);
    world.states = ['done', 'waiting'];
    await terminal.shows(/^job0 +done/);
    // Rows that are the same are not written again.
    expect(terminal.written.slice(length)).not.toContain('job1');
    world.states = null;
    await terminal.shows(/^Trying again: .*http:/);
    world.states = ['done'];
    await terminal.shows(/Ctrl-C ends$/);
    terminal.type('\u0003');
    expect(await terminal.ended()).toBe(0);
    expect(terminal.rows).toEqual([
      expect.stringMatching(/^JOB /),
      expect.stringMatching(/^job0 +done/),
      'Every 0.1 s; Ctrl-C ends',
    ]);
  });

  test('jobs --watch shows as much as fits on the screen, and also ends with Ctrl-\\', async () => {
    await using cli = await Cli.create();
    const { server } = await jobsWith(Array.from({ length: 40 }, () => 'done'));
    await using _ = server;
    await using terminal = new ScreenTerminal(cli, ['jobs', ...quick, '--server', server.url], { rows: 10 });
    await terminal.shows(/^\.\.\. and 34 lines more$/);
    terminal.type('\u001c');
    expect(await terminal.ended()).toBe(0);
    expect(terminal.rows.filter((row) => row.startsWith('job'))).toHaveLength(7);
  });

  test('jobs --watch prints a block for each change into a pipe, and continues while the server is away', async () => {
    await using cli = await Cli.create();
    const { world, server } = await jobsWith(['running']);
    await using _ = server;
    const running = cli.begin(['jobs', '-q', ...quick, '--server', server.url]);
    await once(running.stdout, 'data');
    await askedAgain(server);
    world.states = null;
    await askedAgain(server);
    world.states = ['running', 'queued'];
    await once(running.stdout, 'data');
    world.states = null;
    await askedAgain(server);
    running.signal('SIGINT');
    const { code, stdout, stderr } = await running.ended;
    expect([code, stdout]).toEqual([0, 'job0\n\njob0\njob1\n']);
    // Once for each outage.
    expect(stderr).toMatch(/^([^\n]*http:[^\n]*; trying again\n){2}$/);
  });

  test('jobs --watch --json prints one document per line, also for the error that ends it', async () => {
    await using cli = await Cli.create();
    const { world, server } = await jobsWith(['running']);
    await using _ = server;
    const running = cli.begin(['jobs', ...quick, '--json', '--server', server.url]);
    await once(running.stdout, 'data');
    world.states = [];
    await once(running.stdout, 'data');
    server.server.closeAllConnections();
    await server[Symbol.asyncDispose]();
    running.signal('SIGTERM');
    const { code, stdout } = await running.ended;
    const lines = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(code).toBe(130);
    expect(lines).toMatchObject([{ jobs: [{ job_id: 'job0' }] }, { jobs: [] }, { error: expect.anything() }]);
  });

  test('jobs --watch ends if no server answers at first, and if its reader has gone', async () => {
    await using cli = await Cli.create();
    const { world, server } = await jobsWith(['running']);
    await using _ = server;
    const running = cli.start(['jobs', ...quick, '--server', server.url]);
    await once(running.process.stdout, 'data');
    running.process.stdout.destroy();
    world.states = [];
    expect((await running.ended).code).toBe(0);
    const nobody = await cli.run(['jobs', ...quick, '--server', 'http://127.0.0.1:1']);
    expect(nobody.code).toBe(5);
  });

  test('--every needs --watch and at least a tenth of a second', async () => {
    await using cli = await Cli.create();
    for (const args of [
      ['--every', '3'],
      ['--watch', '--every', '0.01'],
    ]) {
      expect((await cli.run(['jobs', ...args])).code).toBe(2);
    }
  });
});

test('gpus --watch prints the machine again when a figure that is shown changes', async () => {
  await using cli = await Cli.create();
  let used = 1.501;
  await using server = await fakeService({
    override: ({ url }, response) => {
      if (url !== '/ram') return false;
      json(response, 200, { used_gb: used, total_gb: 64 });
      return true;
    },
  });
  const running = cli.begin(['gpus', ...quick, '--json', '--server', server.url]);
  await once(running.stdout, 'data');
  used = 1.502;
  await askedAgain(server);
  used = 2;
  await once(running.stdout, 'data');
  running.signal('SIGINT');
  const { code, stdout } = await running.ended;
  const lines = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect([code, lines.map(({ ram }) => ram.used_gb)]).toEqual([0, [1.501, 2]]);
});
