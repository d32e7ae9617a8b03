import { chmodSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { readConfig } from '../../src/cli/serve/config-file.js';
import { serveFlags } from '../../src/cli/serve/flags.js';
import { Cli } from '../support/cli.js';
import { apps, TestServer } from '../support/server.js';

/** How `serve` ends with a configuration of this text. */
async function refusedWith(text: string, flags: readonly string[] = []): Promise<[number | null, string]> {
  await using cli = await Cli.create();
  writeFileSync(path.join(cli.directory, 'serve.yaml'), text);
  const words = ['serve', '--check', '--config', 'serve.yaml', '--data-dir', 'data', ...flags];
  const { code, stderr } = await cli.run(words);
  return [code, stderr];
}

describe('serve --config', () => {
  test('serve --config reads flags from a file, and flags on the command line take precedence', async () => {
    await using cli = await Cli.create();
    const file = path.join(cli.directory, 'serve.yaml');
    const text = `# a comment\nauth: off\ngrace: 77\nmax-keep: 3d\napps:\n  - ${apps.shell}\n  - ${apps.probe}\nmax-file-size: 5MB\n`;
    writeFileSync(file, text);
    await using server = await TestServer.start({
      ownProcess: true,
      apps: [],
      flags: ['--config', file, '--max-keep', '2d'],
    });
    expect((await server.api.json('/repo_apps_list')).apps).toEqual(['shell', 'probe']);
    const limits = { grace: 77, max_keep: 2 * 86_400, max_file_size: 5_000_000 };
    expect(await server.api.json('/limits')).toMatchObject(limits);
    expect(server.stderr).toContain('authentication is off (--auth off)');
    const words = ['serve', '--check', '--config', file, '--port', '0', '--apps', apps.probe];
    const { stdout } = await cli.run(words, { CUDA_VISIBLE_DEVICES: '' });
    expect(stdout.match(/app \w+/g)).toEqual(['app probe']);
  });

  test.for(Object.keys(serveFlags).filter((name) => !['config', 'check'].includes(name)))(
    'serve --config takes %s',
    async (name) => {
      await using cli = await Cli.create();
      const file = path.join(cli.directory, 'serve.yaml');
      const isBoolean = Object(serveFlags)[name].type === 'boolean';
      writeFileSync(file, `${name}: ${isBoolean ? 'true' : '7'}\n`);
      const argv = isBoolean ? [`--${name}`] : [`--${name}=7`];
      expect(readConfig(file, serveFlags)).toEqual([{ name, argv, where: `${file}, line 1` }]);
    },
  );

  test.for([
    ['port: 8000\n\nprot: 1\n', "line 3: there is no flag 'prot'; did you mean port?"],
    ['max_jobs: 3\n', "line 1: there is no flag 'max_jobs'; did you mean max-jobs?"],
    ['port: many\n', "line 1: --port takes a whole number, got 'many'"],
    ['auth: maybe\n', 'line 1: Expected --auth=maybe to be one of: bearer, required, off'],
    ['host: [a, b]\n', "line 1: 'host' takes one value, not a list"],
    ['apps:\n', "line 1: 'apps' has no value"],
    [
      'data-dir: ~ana/jobs\n',
      "line 1: --data-dir takes a path; only '~/' stands for a home directory, got '~ana/jobs'",
    ],
    ['config: other.yaml\n', "line 1: 'config' can only be given on the command line"],
    ['port: 1\nport: 2\n', 'line 2: it is not YAML: Map keys must be unique'],
    ['- port\n', "serve.yaml: it must have one flag a line, such as 'port: 8000'"],
  ] as const)('serve --config refuses %j, and says where', async ([text, sentence]) => {
    const [code, stderr] = await refusedWith(text);
    expect([code, stderr]).toEqual([2, expect.stringContaining(sentence)]);
    expect(stderr).toContain('serve.yaml');
  });

  test('A file for serve --config is read as it is written, and flags may be spelled as elsewhere', async () => {
    await using cli = await Cli.create();
    const file = path.join(cli.directory, 'serve.yaml');
    const read = (text: string) => {
      writeFileSync(file, text);
      return readConfig(file, serveFlags).flatMap(({ argv }) => argv);
    };
    expect(
      read('grace: 0800\nmax-keep: 1e3\nmetrics: false\ndownload: true\napps: [a, 0x1]\nhost: "no"\n'),
    ).toEqual([...['--grace=0800', '--max-keep=1e3', '--download', '--apps=a', '--apps=0x1', '--host=no']]);
    for (const [text, sentence] of [
      [
        'max_fine_tune_time: 1h\n',
        "line 1: there is no flag 'max_fine_tune_time'; did you mean max-fine-tune-time?",
      ],
      ['--port: 3\n', "line 1: there is no flag '--port'; did you mean port?"],
      ['zzz: 3\n', "line 1: there is no flag 'zzz'; the keys are the flags that serve --help lists"],
      ['check: true\n', "line 1: 'check' can only be given on the command line"],
      ['download: 1\n', "line 1: 'download' takes true or false"],
      ['apps: [a, [b]]\n', "line 1: 'apps' has no value"],
    ] as const)
      expect(() => read(text)).toThrow(`${file}, ${sentence}`);
    expect(read('')).toEqual([]);
  });

  test('A file for serve --config may have no app, a byte order mark, and ~ for the home directory; so may the list of apps', async () => {
    await using cli = await Cli.create();
    const [config, list] = ['serve.yaml', 'apps.json'].map((name) => path.join(cli.home, name));
    writeFileSync(list ?? '', `\ufeff${JSON.stringify({ apps: [{ name: 'probe', source: apps.probe }] })}`);
    const words = ['serve', '--check', '--port=0', '--config=~/serve.yaml'];
    const checked = async (text: string) => {
      writeFileSync(config ?? '', `\ufeff${text}`);
      return (await cli.run(words, { CUDA_VISIBLE_DEVICES: '' })).stdout;
    };
    const first = await checked('data-dir: ~/jobs\napps:\n  - ~/apps.json\nengine: ~/bin/engine\n');
    expect(first).toMatch(/app probe/);
    expect(first).toContain(`${cli.home}/jobs`);
    expect(await checked('data-dir: ~/jobs\napps: []\n')).toMatch(/^note +apps?: /m);
    expect(await checked('data-dir: ~nobody/jobs\n')).toBe('');
  });

  test('serve --config says that its file does not exist', async () => {
    await using cli = await Cli.create();
    const { code, stderr } = await cli.run(['serve', '--check', '--config', 'nowhere.yaml']);
    expect(code, stderr).toBe(2);
    expect(stderr).toContain("The configuration 'nowhere.yaml' cannot be read");
  });
});

test.for([
  ['max-keep', 'never', 'a time such as'],
  ['max-run-time', '0s', 'a time of at least a second'],
  ['max-fine-tune-time', 'x', 'a time such as'],
  ['resident-idle', 'x', 'a time such as'],
  ['max-file-size', 'big', 'a size such as'],
  ['max-upload-size', '0', 'a size such as'],
  ['host', "''", 'a value that is not empty'],
  ['metrics-host', "' '", 'a value that is not empty'],
  ['data-dir', "''", 'a value that is not empty'],
  ['memory-per-job', '1KiB', 'a size of at least 64MiB'],
] as const)(
  'An invalid %s of %s is reported with its line in the file, and refused on the command line',
  async ([name, value, takes]) => {
    await using cli = await Cli.create();
    writeFileSync(path.join(cli.directory, 'serve.yaml'), `port: 0\n${name}: ${value}\n`);
    const configured = await cli.run(['serve', '--check', '--config', 'serve.yaml']);
    expect(configured.code, configured.stderr).toBe(2);
    expect(configured.stderr).toContain(`serve.yaml, line 2: --${name} takes ${takes}`);
    const typed = await cli.run(['serve', '--check', `--${name}=${value.replaceAll("'", '')}`]);
    expect([typed.code, typed.stderr]).toEqual([2, expect.stringContaining(`--${name} takes ${takes}`)]);
  },
);

describe('the token of serve', () => {
  test('The token of serve comes from a file that only its owner can read', async () => {
    await using cli = await Cli.create();
    const file = path.join(cli.directory, 'token');
    writeFileSync(file, 'from-a-file\n', { mode: 0o600 });
    await using server = await TestServer.start({
      token: 'from-the-environment',
      flags: ['--auth', 'required', '--token-file', file],
    });
    const statusWith = async (token: string) =>
      (await fetch(`${server.url}/health`, { headers: { Authorization: `Bearer ${token}` } })).status;
    expect([await statusWith('from-a-file'), await statusWith('from-the-environment')]).toEqual([200, 401]);
  });

  test.for([
    [0o644, 'secret', 'can be read by users other than its owner'],
    [0o602, 'secret', 'can be read by users other than its owner'],
    [0o660, 'secret', 'can be read by users other than its owner'],
    [0o600, '\n', 'is empty'],
    [0o600, 'two words', 'contains characters that are not allowed'],
  ] as const)(
    'The token of serve in a file of mode %o with the content %j is refused',
    async ([mode, text, sentence]) => {
      await using cli = await Cli.create();
      const file = path.join(cli.directory, 'token');
      writeFileSync(file, text);
      chmodSync(file, mode);
      const said = await cli.refusedStart(['serve', '--data-dir', 'data', '--token-file', file]);
      expect(said).toContain(sentence);
      expect(said).not.toContain('secret');
    },
  );

  test.for([
    [' ', 'SERVICE_API_TOKEN is blank'],
    ['a\nb', 'contains characters that are not allowed'],
    ['x€', 'contains characters that are not allowed'],
  ] as const)(
    'The token of serve in the environment may not be %j',
    async ([SERVICE_API_TOKEN, sentence]) => {
      await using cli = await Cli.create();
      const words = ['serve', '--data-dir', 'data', '--check'];
      const { code, stderr } = await cli.run(words, { SERVICE_API_TOKEN });
      expect([code, stderr]).toEqual([2, expect.stringContaining(sentence)]);
    },
  );

  test('serve needs a token with --auth required', async () => {
    await using cli = await Cli.create();
    const words = ['serve', '--data-dir', 'data', '--auth', 'required'];
    expect(await cli.refusedStart(words, { SERVICE_API_TOKEN: '' })).toContain(
      '--auth required, and there is no token',
    );
  });
});
