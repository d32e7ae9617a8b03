import { expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { fakeService } from '../support/fake-service.js';
import { json } from '../support/scripted-server.js';

const id = '3f9a0c1b2d4e';

test.each([
  [['logs', id, '--since', 'x'], "--since takes a whole number, got 'x'"],
  [['logs', id, '--since=-1'], "--since must be at least 0, got '-1'"],
  [['logs', id, '--since'], 'Flag --since expects a value'],
  [['retry'], "Missing: JOB (The job's id, as a submission printed it)"],
  [['logs', id, 'more\nwords'], 'Unexpected argument: more\\x0awords'],
  [['serve', '--port', '70000'], "--port must be at most 65535, got '70000'"],
  [['infer', 'a', '--each', '--at-most', '0'], "--at-most must be at least 1, got '0'"],
  [['infer', 'a', '--each', '--at-most', '257'], "--at-most must be at most 256, got '257'"],
  [['infer', 'a', '--each', '--at-most', 'all'], "--at-most takes a whole number, got 'all'"],
  [['infer', 'a', '--gpu', '0', '--cpu', '2'], '--gpu and --cpu exclude each other; give one of them'],
  [['infer', 'a', '--detach', '-o', 'b'], '--output and --detach exclude each other; give one of them'],
  [['infer', 'a', '--detach', '--force'], '--force and --detach exclude each other; give one of them'],
  [['result', id, '--wait', '9', '--no-wait'], '--wait and --no-wait exclude each other; give one of them'],
  [['serve', '--auth', 'x'], 'Expected --auth=x to be one of: bearer, required, off'],
  [
    ['serve', '--max-file-size', 'x'],
    "--max-file-size takes a size such as 2GiB, 2G (the same) or 500MB, got 'x'",
  ],
  [['health', '--timeout', '0'], "--timeout takes a number of seconds above 0 and up to 2000000, got '0'"],
  [['health', '--timeout', '1', '--timeout', '2'], 'Flag --timeout can only be specified once'],
  [
    ['serve', '--max-file-size', '2Q'],
    "--max-file-size takes a size such as 2GiB, 2G (the same) or 500MB, got '2Q'",
  ],
  [['infer', '--nope', '--foo'], 'Nonexistent flags: --nope, --foo'],
])('%j says what is wrong, and where help is', async (args, sentence) => {
  await using cli = await Cli.create();
  const { code, stdout, stderr } = await (args[0] === 'serve' ? cli.runProcess(args) : cli.run(args));
  expect([code, stdout, stderr]).toEqual([
    2,
    '',
    `Error: ${sentence}\nSee 'remote-app ${args[0]} --help'.\n`,
  ]);
});

test('--json has the same sentence, without the hint', async () => {
  await using cli = await Cli.create();
  const { stdout, stderr } = await cli.run(['logs', id, '--since', 'x', '--json']);
  expect(JSON.parse(stdout)).toEqual({
    error: { message: "--since takes a whole number, got 'x'", exit_code: 2 },
  });
  expect(stderr).toBe('');
});

test.each(['infer', 'jobs', 'result', 'apps', 'show', 'serve'])(
  'the help of %s has the flags of each section in one column',
  async (command) => {
    await using cli = await Cli.create();
    const { stdout } = await cli.run([command, '--help']);
    const sections = stdout.split('\n\n').filter((section) => /^[A-Z ]*FLAGS\n/.test(section));
    expect(sections.length).toBeGreaterThan(0);
    for (const section of sections) {
      const columns = section.split('\n').flatMap((line) => {
        const [start] = /^ {2,6}(?:-\w, )?(?=--\S)/.exec(line) ?? [];
        return start === undefined ? [] : [start.length];
      });
      expect(new Set(columns).size, section).toBe(1);
    }
  },
);

test('usage counts back from the time of the server, and says of which time there is nothing', async () => {
  await using cli = await Cli.create();
  await using server = await fakeService({
    override: ({ url }, response) => {
      response.setHeader('Date', 'Thu, 02 Jan 2020 12:00:00 GMT');
      if (!url.startsWith('/usage')) return false;
      json(response, 200, { since: null, usage: [] });
      return true;
    },
  });
  const env = { REMOTE_APP_SERVER: server.url };
  const { stderr } = await cli.run(['usage'], env);
  expect(stderr).toBe(`No job has ended on ${server.url} yet\n`);
  const since = await cli.run(['usage', '--since', '1d'], env);
  expect(since.stderr).toBe(`No job has ended on ${server.url} since then\n`);
  const asked = new URL(server.received.at(-1)?.url ?? '', server.url).searchParams.get('since') ?? '';
  expect(Math.abs(Date.parse(asked) - Date.parse('2020-01-01T12:00:00Z'))).toBeLessThan(60_000);
});
