import { chmodSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { fakeService } from '../support/fake-service.js';
import { json } from '../support/scripted-server.js';

const id = '3f9a0c1b2d4e';

test.each([
  [['logs', id, '--since', 'x'], "--since takes a whole number, got 'x'"],
  [['logs', id, '--since=-1'], "--since must be at least 0, got '-1'"],
  [['logs', id, '--since'], 'Flag --since expects a value'],
  [['retry'], 'Missing: JOB (Job id, as printed on submission)'],
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
  [['infer', '--nope', '--foo'], 'Nonexistent flags: --nope, --foo'],
  [['check', 'a', '--no-rum'], 'Nonexistent flag: --no-rum; did you mean --no-run?'],
  [
    ['infer', '--deidentfy=full', '--jsno'],
    'Nonexistent flags: --deidentfy=full, --jsno; did you mean --deidentify, --json?',
  ],
  [['infer', 'a', '--deidentify=most'], "--deidentify takes 'full' or 'names', got 'most'"],
  [['infer', 'a', '--deidentify=constructor'], "--deidentify takes 'full' or 'names', got 'constructor'"],
  [['wait', '--tag', ' '], "--tag takes a tag, got ' '"],
  [['usage', '--since', '1.11.2026'], "--since takes a time such as 30d or 2026-11-01, got '1.11.2026'"],
  [['usage', '--since', '2026-13-01'], "--since takes a time such as 30d or 2026-11-01, got '2026-13-01'"],
  [
    ['jobs', '--status', 'done, ended'],
    "--status takes queued, waiting, running, done, error, killed, got 'ended'",
  ],
  [['jobs', '--every', '1'], '--every needs --watch'],
  [['show', '--slices', '51'], "--slices must be at most 50, got '51'"],
  [['show', '--frame', '0'], "--frame must be at least 1, got '0'"],
  [['init', 'a', '--task', 'total'], '--task needs --from'],
])('%j is refused with the reason and where to find help', async (args, sentence) => {
  await using cli = await Cli.create();
  // A server would take the process for its own.
  const { code, stdout, stderr } = await cli.run(args[0] === 'serve' ? [...args, '--check'] : args);
  expect([code, stdout, stderr]).toEqual([
    2,
    '',
    `Error: ${sentence}\nSee 'remote-app ${args[0]} --help'.\n`,
  ]);
});

const both = 'Name jobs or give --tag, not both';

test.each([
  [['wait', id, '--tag', 'a'], both],
  [['rm', id, '--tag', 'a'], both],
  [['rm'], 'Name the jobs, or give --tag'],
  [['kill'], 'Name the jobs, or give --tag, --owner or --all'],
  [['kill', id, '--all'], 'Name jobs, or give --tag, --owner or --all: one of these'],
  [['kill', '--tag', 'a', '--owner', 'ana'], 'Name jobs, or give --tag, --owner or --all: one of these'],
  [['inputs'], 'No path given: name files, patterns or directories'],
  [['result', id, '-o', '-', '--no-zip'], '-o - writes the zip that --no-zip leaves out; choose one'],
  [['result', id, '-o', '-', '--json'], '-o - and --json both write to stdout; choose one'],
  [['result', id, '-o', ''], '--output is empty; name a directory'],
  [['infer', 'a', '--each', '-o', '-'], 'With --each there are many results: name a directory with -o'],
  [
    ['infer', 'a', '--as', 'nrrd', '-o', '-'],
    '--as writes files beside the result: name a directory with -o',
  ],
  [['check', 'nowhere'], "There is no directory 'nowhere'; name that of an app"],
  [['check', '.', '--scan', 'none.nii'], "There is no file 'none.nii' for --scan; name a scan"],
  [['token', 'limit', '--tokens', 'tokens.json'], 'Name a token, or a role with --role, and not both'],
])('%j is refused with what to do instead', async (args, sentence) => {
  await using cli = await Cli.create();
  writeFileSync(path.join(cli.directory, 'tokens.json'), '{"version": 1, "tokens": []}');
  chmodSync(path.join(cli.directory, 'tokens.json'), 0o600);
  const { code, stdout, stderr } = await cli.run(args);
  const message = args.includes('--json') ? JSON.parse(stdout).error.message : stderr;
  expect([code, message]).toEqual([2, args.includes('--json') ? sentence : `Error: ${sentence}\n`]);
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
  'The help of %s has the flags of each section in one column',
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

test('usage counts back from the time of the server, and says for which period there is no usage', async () => {
  await using cli = await Cli.create();
  await using server = await fakeService({
    override: ({ url }, response) => {
      response.setHeader('Date', 'Thu, 02 Jan 2020 12:00:00 GMT');
      if (!url.startsWith('/usage')) return false;
      json(response, 200, { since: null, usage: [], uploads: [] });
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
  const time = async (since: string) => {
    await cli.run(['usage', '--since', since], env);
    return new URL(server.received.at(-1)?.url ?? '', server.url).searchParams.get('since');
  };
  // A date begins at local midnight.
  expect(await time('2026-03-01')).toBe(new Date(2026, 2, 1).toISOString());
  expect(await time('2026-03-01T10:00:00Z')).toBe('2026-03-01T10:00:00.000Z');
});
