import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { type Fake, fakeService } from '../support/fake-service.js';
import { json } from '../support/scripted-server.js';
import { plant } from '../support/temporary.js';

describe('a word that is not a command', () => {
  test.each([
    [['infre'], "There is no command 'infre'; did you mean 'infer'?"],
    [['infre', './scans', '--gpu', '0'], "There is no command 'infre'; did you mean 'infer'?"],
    [['infre', '--help'], "There is no command 'infre'; did you mean 'infer'?"],
    [['-h', 'infre'], "There is no command 'infre'; did you mean 'infer'?"],
    [['help', 'infre'], "There is no command 'infre'; did you mean 'infer'?"],
    [['xyzzy'], "There is no command 'xyzzy'"],
    [['a\nb'], "There is no command 'a\\x0ab'"],
    [['--hlep'], "There is no flag '--hlep' before a command; did you mean '--help'?"],
    [
      ['--server', 'http://127.0.0.1:1', 'health'],
      "There is no flag '--server' before a command; flags come after the command that they are for",
    ],
  ])('%j is a usage error that runs nothing and contacts no server', async (args, sentence) => {
    await using cli = await Cli.create();
    const { code, stdout, stderr } = await cli.run(args, {}, 'y\n');
    expect([code, stdout, stderr]).toEqual([2, '', `Error: ${sentence}\nSee 'remote-app --help'.\n`]);
  });

  test.each([
    [['health', 'extra', '--server', 'http://127.0.0.1:1'], 'health', 'extra'],
    [['token', 'list', 'a\nb', 'more'], 'token list', 'a\\x0ab'],
  ])('A word after a command that takes no arguments is a usage error: %j', async (args, command, word) => {
    await using cli = await Cli.create();
    const sentence = `'${command}' takes no argument, got '${word}'`;
    const { code, stdout, stderr } = await cli.run(args);
    expect([code, stdout, stderr]).toEqual([
      2,
      '',
      `Error: ${sentence}\nSee 'remote-app ${command} --help'.\n`,
    ]);
    const asJson = await cli.run([...args, '--json']);
    expect(JSON.parse(asJson.stdout)).toEqual({ error: { message: sentence, exit_code: 2 } });
  });

  test('A usage error with --json is one document on stdout', async () => {
    await using cli = await Cli.create();
    const { code, stdout, stderr } = await cli.run(['jbos', '--json']);
    expect([code, stderr]).toEqual([2, '']);
    expect(JSON.parse(stdout)).toEqual({
      error: { message: "There is no command 'jbos'; did you mean 'jobs'?", exit_code: 2 },
    });
  });
});

test.each([
  ['--ensembel', '; did you mean --ensemble?'],
  ['--ensemble_model=CV_0', '; did you mean --ensemble_models?'],
  ['--ouput=x', '; did you mean --output?'],
  ['-gpu', '; did you mean --gpu?'],
  ['--profil', '; did you mean --profile?'],
  ['--jsn', '; did you mean --json?'],
  ['--no-uncertanty', '; did you mean --no-uncertainty?'],
  ['--xyzzy', ''],
])('infer %s names the flag that was probably meant', async (flag, end) => {
  await using cli = await Cli.create();
  const { code, stderr } = await cli.run(['infer', flag]);
  expect([code, stderr]).toEqual([
    2,
    `Error: Nonexistent flag: ${flag}${end}\nSee 'remote-app infer --help'.\n`,
  ]);
});

describe('an app that the server does not have', () => {
  const override: Fake['override'] = ({ url, method }, response) => {
    const isOfApp = url.startsWith(method === 'POST' ? '/apps/' : '/repo_apps/');
    if (isOfApp) json(response, 404, { detail: "Unknown app 'tisue'" });
    return isOfApp;
  };

  test.each([
    [['infer', 'ct.nii', '--app', 'tisue'], ['tissue', 'shell'], "; did you mean 'tissue'?"],
    [['infer', 'ct.nii', '--app', 'tisue', '--detach'], ['tissue'], "; did you mean 'tissue'?"],
    [['apps', 'tisue'], ['tissue'], "; did you mean 'tissue'?"],
    [['apps', 'tisue'], ['lungs', 'heart'], '; the server has: lungs, heart'],
    [['apps', 'tisue'], [], '; the server has no app'],
    [['apps', 'tisue'], ['tisue'], ''],
  ])('The error for %j, where the server has %j, names the app that was meant', async (args, apps, end) => {
    await using cli = await Cli.create();
    await plant(cli.directory, { 'ct.nii': 'volume' });
    await using server = await fakeService({ apps, override });
    const { code, stdout, stderr } = await cli.run([...args, '--server', server.url]);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toBe(`Error: Unknown app 'tisue'${end}\n`);
  });
});

test('An unknown profile is an error that suggests a similar name', async () => {
  await using cli = await Cli.create();
  await plant(cli.home, {
    [path.join('remote-app', 'profiles.json')]: '{"profiles":{"lab":{"server":"http://127.0.0.1:1"}}}',
  });
  const { code, stderr } = await cli.run(['health', '--profile', 'lba']);
  expect([code, stderr]).toEqual([2, "Error: No profile 'lba' (there are: lab); did you mean 'lab'?\n"]);
});

describe('-h, -v and help', () => {
  test('-h means --help, and -v means --version', async () => {
    await using cli = await Cli.create();
    for (const command of [[], ['infer'], ['serve'], ['eval']]) {
      const [short, long] = [await cli.run([...command, '-h']), await cli.run([...command, '--help'])];
      expect([short.code, short.stdout]).toEqual([0, long.stdout]);
      expect(long.stdout).toContain('USAGE');
    }
    expect((await cli.run(['-v'])).stdout).toBe((await cli.run(['--version'])).stdout);
    expect((await cli.run(['-v'])).stdout).toMatch(/^remote-app\/\d/);
  });

  test.each([[[]], [['--help']], [['help']]])('%j lists each command once, and no alias', async (args) => {
    await using cli = await Cli.create();
    const { stdout } = await cli.run(args);
    expect(stdout).toMatch(/^ {2}evaluate /m);
    expect(stdout).not.toMatch(/^ {2}eval /m);
    expect(stdout).toContain('-h or --help');
  });

  test('help COMMAND and -h COMMAND print the same as COMMAND --help', async () => {
    await using cli = await Cli.create();
    const { stdout } = await cli.run(['infer', '--help']);
    expect((await cli.run(['help', 'infer'])).stdout).toBe(stdout);
    expect((await cli.run(['-h', 'infer'])).stdout).toBe(stdout);
  });
});
