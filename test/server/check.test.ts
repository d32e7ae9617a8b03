import { execFile } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Cli, type Ended } from '../support/cli.js';
import { plantCache } from '../support/hub-cache.js';
import { asNobody, lacks } from '../support/needs.mjs';
import { freePort } from '../support/ports.mjs';
import { sandbox } from '../support/sandbox.js';
import { apps, TestServer } from '../support/server.js';
import { smallDisk } from '../support/small-disk.js';
import { plant } from '../support/temporary.js';

const run = promisify(execFile);
const withoutPython = lacks('python3');

const manifest = { display_name: 'x', description: 'x', short_description: 'x', tta: 0, mc_dropout: 0 };

/** Apps with a fault each, by the line that must be said of it. */
const faulty = {
  syntax: ['{\n  "display_name": "x",\n  "tta": }\n', 'line 3: it is not JSON: Unexpected token'],
  cut: ['{\n  "display_name": "x",\n  "tta": 3\n', 'line 3: it is not JSON: '],
  field: [
    JSON.stringify({ ...manifest, tta: 'many' }, null, 2),
    'line 5: tta: expected number, received string',
  ],
  absent: [
    JSON.stringify({ ...manifest, description: undefined }, null, 2),
    'line 1: description: it is missing',
  ],
  deep: [
    JSON.stringify({ ...manifest, inputs: { A: { display_name: 'x', volume_type: 3 } } }, null, 2),
    'line 10: inputs.A.volume_type: expected string, received number',
  ],
  program: [
    JSON.stringify({ ...manifest, command: ['no-such-program'] }, null, 2),
    "line 8: command.0: there is no program 'no-such-program' that can be run",
  ],
  resident: [
    JSON.stringify({ ...manifest, resident: true }, null, 2),
    'line 7: resident: only a program of the app can be resident, and `command` is missing',
  ],
} as const;

/** Apps that can be started and have something wrong with them: more of app.json, the line that is said, and other files. */
const doubtful: Readonly<
  Record<string, readonly [Readonly<Record<string, unknown>>, string, Readonly<Record<string, string>>?]>
> = {
  typo: [
    { command: ['true'], residnt: true },
    "line 10: residnt: there is no such field; did you mean 'resident'?",
  ],
  'typo-below': [
    { command: ['true'], inputs: { A: { display_name: 'x', volume_type: 'VOLUME', requird: false } } },
    "line 14: inputs.A.requird: there is no such field; did you mean 'required'?",
  ],
  'typo-of-the-engine': [{ ouputs: {} }, "line 7: ouputs: there is no such field; did you mean 'outputs'?"],
  bounds: [
    { command: ['true'], parameters: { scale: { default: 1, min: '0.5' } } },
    "line 13: parameters.scale.min: must be a number, got '0.5'",
  ],
  type: [{ command: ['true'], tta: '4' }, 'line 5: tta: expected number, received string'],
  'type-below': [
    { command: ['true'], inputs: { A: { display_name: 'x', volume_type: 'VOLUME', required: 'false' } } },
    'line 14: inputs.A.required: expected boolean, received string',
  ],
  node: [
    { command: ['node', 'main.mjs'] },
    "package.json: 1 package not installed: no-such-package; run 'npm install' in ",
    {
      'main.mjs': '',
      'package.json': '{"dependencies": {"there": "1", "above": "1", "no-such-package": "1"}}',
      'node_modules/there/package.json': '{}',
      '../node_modules/above/package.json': '{}',
    },
  ],
  requirements: [
    { command: ['python3', 'main.py'] },
    'requirements.txt: 1 package not installed for /',
    {
      'main.py': '',
      'requirements.txt':
        '# ours\n-r more.txt\nno-such-package[x]>=1  # a note\nother; python_version < "3"\n./local\n',
    },
  ],
  imports: [
    { command: ['python3', 'main.py'] },
    'helper.py, line 2: /',
    {
      'main.py':
        'import os.path, sys\ntry:\n    import no_such_option\nexcept ImportError:\n    pass\nimport helper\n',
      'helper.py': '# Ours.\nimport no_such_module.part\nraise SystemExit("it was run")\n',
      'email.py': 'raise SystemExit("it was run")\n',
    },
  ],
};

const doubtfulFiles = Object.fromEntries(
  Object.entries(doubtful).flatMap(([name, [more, , others = {}]]) =>
    Object.entries({ 'app.json': JSON.stringify({ ...manifest, ...more }, null, 2), ...others }).map(
      ([file, text]) => [path.join(name, file), text],
    ),
  ),
);

const files = Object.fromEntries(Object.entries(faulty).map(([name, [text]]) => [`${name}/app.json`, text]));

/** The same files, in a directory. */
const under = (directory: string, given: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(given).map(([name, text]) => [`${directory}/${name}`, text]));

const isRoot = process.getuid?.() === 0;

/** Runs a command without the rights that root has to read any file. */
const asOrdinaryUser = isRoot
  ? ['setpriv', ...['--bounding-set', '--inh-caps'].map((each) => `${each}=-dac_override,-dac_read_search`)]
  : [];

const commands = fileURLToPath(new URL('../fixtures/programs/commands.mjs', import.meta.url));

/** Runs `serve --check` with each of these words in one process, which the wrapper starts. */
async function checksIn(
  cli: Cli,
  wrapper: readonly string[],
  HOME: string,
  lines: readonly (readonly string[])[],
): Promise<readonly Pick<Ended, 'code' | 'stdout' | 'stderr'>[]> {
  const [program = '', ...args] = [...wrapper, process.execPath, commands];
  const words = lines.map((line) => JSON.stringify(['serve', '--check', ...line]));
  const env = { PATH: process.env.PATH, HOME, XDG_CONFIG_HOME: cli.home, CUDA_VISIBLE_DEVICES: '' };
  const { stdout } = await run(program, [...args, ...words], { cwd: cli.directory, env });
  return JSON.parse(stdout);
}

/** The entries of a directory, with the contents of its files and the times at which those changed. */
const contentsOf = (directory: string) =>
  readdirSync(directory, { recursive: true, withFileTypes: true })
    .map((entry) => {
      const name = path.join(entry.parentPath, entry.name);
      return entry.isFile() ? [name, readFileSync(name, 'utf8'), statSync(name).ctimeMs] : [name];
    })
    .sort();

/** `serve --check` with the apps below `apps`. */
const checkOfApps = (dataDirectory: string) =>
  ['serve', '--check', '--port', '0', '--data-dir', dataDirectory, '--apps', 'apps'] as const;

describe('serve --check', () => {
  test('serve --check says that all is well, and changes nothing', async () => {
    await using cli = await Cli.create();
    const port = String(await freePort());
    const kept = sandbox ? [] : ['--sandbox', 'off'];
    const words = ['serve', '--check', '--port', port, '--data-dir', 'data', '--apps', apps.shell, ...kept];
    const { code, stdout } = await cli.run(words, { SERVICE_API_TOKEN: 'secret', CUDA_VISIBLE_DEVICES: '' });
    expect(stdout.split('\n').map((line) => line.split(':', 1)[0])).toEqual([
      ...(isRoot ? ['note     user'] : []),
      'ok       app shell',
      'ok       data directory',
      'ok       address',
      'ok       token',
      'ok       GPUs',
      `${sandbox ? 'ok  ' : 'note'}     sandbox`,
      '',
    ]);
    expect([code, stdout.includes('secret'), readdirSync(cli.directory)]).toEqual([0, false, []]);
  });

  test('serve --check reports that only de-identified submissions are accepted', async () => {
    await using cli = await Cli.create();
    const words = [...checkOfApps('data'), '--require-deidentified'];
    const { stdout } = await cli.run(words, { CUDA_VISIBLE_DEVICES: '' });
    expect(stdout).toMatch(/^ok +submissions: only those that are de-identified$/m);
  });

  test('serve --check says which repositories are in the cache, and asks no hub', async () => {
    await using cli = await Cli.create();
    const cache = path.join(cli.directory, 'cache');
    await plantCache(cache, 'lab/app', {
      'X/app.json': JSON.stringify(manifest),
      'Y/app.json': JSON.stringify({ ...manifest, tta: 'many' }),
    });
    const sources = ['lab/app:X', 'lab/app:Y', 'lab/none:Z'].flatMap((each) => ['--apps', each]);
    const words = ['serve', '--check', '--port', '0', '--data-dir', 'data', '--engine', 'sh', ...sources];
    const environment = { HF_HUB_CACHE: cache, HF_ENDPOINT: 'http://127.0.0.1:9', CUDA_VISIBLE_DEVICES: '' };
    const { code, stdout } = await cli.run(words, environment);
    const lines = stdout.split('\n').filter((line) => line.includes('app lab'));
    expect([code, lines]).toEqual([
      2,
      [
        expect.stringMatching(/^ok +app lab\/app:X: lab\/app:X$/),
        expect.stringMatching(
          /^PROBLEM +app lab\/app:Y: .*\/Y\/app\.json, line 1: tta: expected number, received string$/,
        ),
        `note     app lab/none:Z: it is not in ${cache}; a server fetches it from http://127.0.0.1:9 when it has started`,
      ],
    ]);
    const offline = await cli.run(words, { ...environment, HF_HUB_OFFLINE: '1' });
    expect(offline.stdout).toMatch(
      /^note +app lab\/none:Z: 'lab\/none' is not in the cache, and HF_HUB_OFFLINE/m,
    );
    const wrong = await cli.run(words, { ...environment, HF_ENDPOINT: 'nowhere' });
    expect(wrong.stdout).toMatch(/^PROBLEM +apps: HF_ENDPOINT is 'nowhere'/m);
  });

  describe('unreadable files', () => {
    const sources = {
      'an app directory': 'shelf/closed',
      'a directory of app directories': 'closed',
      'one in a directory of app directories': 'shelf',
      'a list of apps': 'list.json',
    };
    const words = (source: string) => ['--port', '0', '--data-dir', 'data', '--apps', source];
    const sentence = /--apps \S+: it cannot be read: permission denied \(EACCES\)/;
    let cli: Cli;
    let checked: Awaited<ReturnType<typeof checksIn>>;
    beforeAll(async () => {
      cli = await Cli.create();
      const text = JSON.stringify({ ...manifest, command: ['true'] });
      await plant(cli.directory, {
        'shelf/closed/app.json': text,
        'shelf/open/app.json': text,
        'closed/open/app.json': text,
        'list.json': '{"apps": []}',
      });
      for (const name of ['shelf/closed', 'closed', 'list.json'])
        chmodSync(path.join(cli.directory, name), 0);
      checked = await checksIn(cli, asOrdinaryUser, cli.home, Object.values(sources).map(words));
    });
    afterAll(() => cli[Symbol.asyncDispose]());

    test.for(Object.entries(sources))('serve --check says what cannot be read, and why: %s', ([, source]) => {
      const { code, stdout } = checked[Object.values(sources).indexOf(source)] ?? { code: null, stdout: '' };
      expect([code, stdout.split('\n').find((line) => line.startsWith('PROBLEM'))]).toEqual([
        2,
        expect.stringMatching(sentence),
      ]);
      if (source === 'shelf') expect(stdout).toMatch(/^ok +app open/m);
    });

    test('Startup reports unreadable files in the same words', async () => {
      const environment = { CUDA_VISIBLE_DEVICES: '' };
      const started = await cli.runProcess(['serve', ...words('closed')], environment, '', asOrdinaryUser);
      expect([started.code, started.stderr]).toEqual([2, expect.stringMatching(sentence)]);
    });
  });

  test('serve --check reports every problem with its place, and exits with code 2', async () => {
    await using cli = await Cli.create();
    await plant(cli.directory, {
      ...Object.fromEntries(Object.entries(files).map(([name, text]) => [`apps/${name}`, text])),
      file: '',
    });
    const words = [...checkOfApps('file/x'), '--apps', 'a/b'];
    const { code, stdout } = await cli.run([...words, '--engine', 'no-such-engine']);
    for (const [name, [, sentence]] of Object.entries(faulty)) {
      const line = stdout
        .split('\n')
        .find((each) => each.startsWith(`PROBLEM  app ${name}:`) && each.includes(sentence));
      expect(line, `${name}: ${stdout}`).toContain(path.join('apps', name, 'app.json'));
    }
    expect(stdout).toMatch(/^PROBLEM {2}engine: There is no program 'no-such-engine'.* a\/b/m);
    expect(stdout).toMatch(/^PROBLEM {2}data directory: .*file/m);
    expect(stdout).toMatch(/^note {5}token: there is none/m);
    expect([code, /^\d+ problems$/m.test(stdout)]).toEqual([2, true]);
  });

  test.skipIf(withoutPython)('serve --check says what may be wrong with apps that do start', async () => {
    await using cli = await Cli.create();
    const planted = Object.entries(doubtfulFiles).map(([file, text]) => [`apps/${file}`, text]);
    await plant(cli.directory, Object.fromEntries(planted));
    const words = [...checkOfApps('data'), '--engine', 'sh'];
    const { code, stdout } = await cli.run(words, { CUDA_VISIBLE_DEVICES: '' });
    expect(code).toBe(2);
    for (const [name, [, sentence]] of Object.entries(doubtful)) {
      const said = stdout.split('\n').filter((line) => line.includes(` app ${name}: `));
      expect(said, name).toEqual([expect.stringContaining(sentence)]);
      expect(said[0]).toMatch(/^PROBLEM/);
    }
    expect(stdout).toMatch(/ has no module 'no_such_module'/);

    await using server = await TestServer.start({ apps: [path.join(cli.directory, 'apps')] });
    for (const name of ['typo', 'bounds', 'node']) expect(server.stderr).toContain(doubtful[name]?.[1]);
    expect(server.stderr).toMatch(/app 'typo': .*app\.json, line 10: residnt/);
  });

  test('serve --check does not disturb the server that runs with these settings', async () => {
    await using server = await TestServer.start();
    await using cli = await Cli.create();
    const { port } = new URL(server.url);
    const words = [
      'serve',
      '--check',
      '--port',
      port,
      '--data-dir',
      server.dataDirectory,
      '--sandbox',
      'off',
      '--apps',
      apps.shell,
    ];
    const { code, stdout } = await cli.run(words, { CUDA_VISIBLE_DEVICES: '' });
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^note {5}data directory: Another server/m)]);
    expect(stdout).toMatch(/^note {5}address: Cannot listen/m);
    expect((await server.api.fetch('/health')).status).toBe(200);
  });
});

const fakePrograms = fileURLToPath(new URL('../fixtures/bin', import.meta.url));

describe('check', () => {
  const volume = { display_name: 'x', volume_type: 'VOLUME' };
  test.for([
    [
      'a script that is not there',
      { command: ['node', 'gone.mjs'] },
      {},
      "command.1: there is no file 'gone.mjs'",
    ],
    [
      'a program that may not be executed',
      { command: ['./run.sh'] },
      { 'run.sh': '#!/bin/sh\n' },
      "run.sh' is not a file that this user may execute",
    ],
    [
      'an unknown kind of volume',
      { command: ['true'], inputs: { A: { ...volume, volume_type: 'VOLUMES' } } },
      {},
      "inputs.A.volume_type: 'VOLUMES' takes files of every kind; did you mean 'VOLUME'?",
    ],
    [
      'JavaScript that is none',
      { command: ['node', 'main.mjs'] },
      { 'main.mjs': 'console.log(1);\nconst = 2;\n' },
      'main.mjs, line 2: SyntaxError: Unexpected token',
    ],
    ...(withoutPython
      ? []
      : ([
          [
            'Python that is none',
            { command: ['python3', 'main.py'] },
            { 'main.py': 'import os\ndef x(:\n' },
            'main.py, line 2: ',
          ],
        ] as const)),
  ] as const)('check --no-run reports the problem: %s', async ([, more, others, sentence]) => {
    await using cli = await Cli.create();
    await plant(cli.directory, {
      'app/app.json': JSON.stringify({ ...manifest, ...more }),
      ...under('app', others),
    });
    const { code, stdout } = await cli.run(['check', 'app', '--no-run']);
    expect(stdout).toContain(sentence);
    expect(code).toBe(1);
  });

  test('check reports all invalid fields at once', async () => {
    await using cli = await Cli.create();
    const wrong = {
      ...manifest,
      tta: 'many',
      mc_dropout: {},
      commnd: ['true'],
      inputs: { A: { volume_type: 3 } },
    };
    await plant(cli.directory, { 'app/app.json': JSON.stringify(wrong) });
    const { stdout } = await cli.run(['check', 'app', '--no-run']);
    for (const field of ['tta', 'mc_dropout', 'commnd', 'inputs.A.volume_type', 'inputs.A.display_name'])
      expect(stdout).toContain(`: ${field}: `);
  });

  test.skipIf(sandbox === null)('check --try runs the app in the sandbox, once on each GPU', async () => {
    await using cli = await Cli.create();
    const program = [
      'for word; do case $previous in --output) out=$word ;; esac; previous=$word; done',
      '[ -w / ] && echo "it has no sandbox" && exit 4',
      '[ "$CUDA_VISIBLE_DEVICES" = 1 ] && echo "no kernel image" && exit 3',
      'echo x > "$out/mask.txt"',
    ].join('\n');
    const json = JSON.stringify({ ...manifest, command: ['sh', 'main.sh'], inputs: { A: volume } });
    await plant(cli.directory, { 'app/app.json': json, 'app/main.sh': `${program}\n` });
    const environment = { PATH: `${fakePrograms}:${process.env.PATH}`, FAKE_GPUS: '2' };
    const { code, stdout } = await cli.run(['check', 'app', '--try'], environment);
    expect(stdout).toMatch(/^ok +trial run on GPU 0: infer wrote 1 file/m);
    expect(stdout).toMatch(
      /^PROBLEM +trial run on GPU 1: infer ended with exit code 3; it printed last: no kernel image$/m,
    );
    expect(code).toBe(1);
    const onCpu = await cli.run(['check', 'app', '--try'], { CUDA_VISIBLE_DEVICES: '' });
    expect(onCpu.stdout).toMatch(/^ok +trial run on the CPU: infer wrote 1 file/m);
  });

  test('check says that an app has removed its output directory', async () => {
    await using cli = await Cli.create();
    const program =
      "require('node:fs').rmSync(process.argv[process.argv.indexOf('--output') + 1], { recursive: true });";
    const json = JSON.stringify({ ...manifest, command: ['node', 'main.cjs'], inputs: { A: volume } });
    await plant(cli.directory, { 'app/app.json': json, 'app/main.cjs': program });
    const { code, stdout } = await cli.run(['check', 'app']);
    expect(stdout).toMatch(/^PROBLEM +trial run: The app removed its output directory/m);
    expect(code).toBe(1);
  });

  const bodies = {
    good: 'cp "$in" "$out"',
    python: 'cp "$in" "$out"; echo "{\\"ml\\": NaN}" > "$out/measurements.json"',
    damaged: 'echo "{" > "$out/measurements.json"',
    silent: 'true',
    failing: 'echo "no such model"; exit 3',
    refusing: 'echo "too few voxels" > "$REMOTE_APP_REFUSAL_FILE"; exit 1',
    slow: 'sleep 1000 & sleep 1000',
    checking:
      'test "$CUDA_VISIBLE_DEVICES" = "" && test "$(wc -c < "$in")" = 8544 && echo x > scratch && cp "$in" "$out"',
  };
  const script = (body: string) =>
    `for word; do case $previous in --inputs) in=$word ;; --output) out=$word ;; esac; previous=$word; done\n${body}\n`;
  const plantApps = (cli: Cli) =>
    plant(
      cli.directory,
      Object.fromEntries([
        ...Object.entries(bodies).flatMap(([name, body]) => [
          [`${name}/app.json`, JSON.stringify({ ...manifest, command: ['sh', 'main.sh'] })],
          [`${name}/main.sh`, script(body)],
        ]),
        ...Object.entries({ ...files, ...doubtfulFiles }),
        ['engine/app.json', JSON.stringify(manifest)],
        ['file', ''],
        ['tmp/', ''],
      ]),
    );

  test.for([
    ['good', 0, /^ok +app good: .*\nok +trial run: infer wrote 1 file in .* s\n$/],
    ['checking', 0, /\nok +trial run: infer wrote 1 file/],
    [
      'python',
      0,
      /\nnote +trial run: infer wrote 2 files in .* s; NaN and Infinity in measurements\.json are empty cells of a table; JSON has null for them\n$/,
    ],
    [
      'damaged',
      0,
      /\nnote +trial run: infer .*; the numbers of measurements\.json do not appear in tables: it is not JSON\n$/,
    ],
    ['silent', 1, /\nPROBLEM +trial run: infer succeeded, but wrote no file into --output\n1 problem\n$/],
    ['failing', 1, /\nPROBLEM +trial run: infer ended with exit code 3; it printed last: no such model\n/],
    ['refusing', 0, /\nnote +trial run: the app starts, and refused the tiny volume: too few voxels\n$/],
    ['slow', 1, /\nPROBLEM +trial run: infer took longer than 1s; it printed nothing\n/],
    ['engine', 0, /\nnote +trial run: it has no command of its own/],
    ['typo', 1, /^PROBLEM +app typo: .*line 10: residnt: .*did you mean 'resident'/],
    ['node', 1, /^PROBLEM +app node: .*no-such-package/],
    ['imports', 1, /^PROBLEM +app imports: .*no_such_module/],
    ['field', 1, /^PROBLEM +app field: .*line 5: tta: .*\n1 problem\n$/],
  ] as const)(
    'Checking the app %s exits with code %i, and leaves nothing behind',
    async ([name, expected, text], context) => {
      context.skip(name === 'imports' && Boolean(withoutPython), 'needs python3');
      await using cli = await Cli.create();
      await plantApps(cli);
      const app = path.join(cli.directory, name);
      const temporary = path.join(cli.directory, 'tmp');
      const before = contentsOf(app);
      const limit = name === 'slow' ? ['--time-limit', '1s'] : [];
      const { code, stdout, stderr } = await cli.run(['check', name, ...limit], { TMPDIR: temporary });
      expect([code, stdout, stderr]).toEqual([expected, expect.stringMatching(text), '']);
      expect([readdirSync(temporary), contentsOf(app)]).toEqual([[], before]);
    },
  );

  test('check accepts --no-run and --json, and refuses a path that is not a directory', async () => {
    await using cli = await Cli.create();
    await plantApps(cli);
    const { code, stdout } = await cli.run(['check', 'failing', '--no-run', '--json']);
    const directory = path.join(cli.directory, 'failing');
    const findings = [{ kind: 'ok', about: 'app failing', says: directory }];
    expect([code, JSON.parse(stdout)]).toEqual([0, { directory, ok: true, findings }]);
    const wrong = await cli.run(['check', 'failing', '--json']);
    expect([wrong.code, JSON.parse(wrong.stdout)]).toMatchObject([1, { ok: false }]);
    for (const target of ['none', 'file']) {
      const { code: exit, stderr } = await cli.run(['check', target]);
      expect([exit, stderr]).toEqual([2, expect.stringContaining(`There is no directory '${target}'`)]);
    }
  });
});

/** Files for the settings below. */
const planted = { file: '', 'data/usage': '', 'linked/usage': '', 'konfai-apps': '#!/bin/sh\nexit 0\n' };

/** Settings that no start takes, by a part of the sentence that says so. */
const refusals: Readonly<Record<string, readonly [words: readonly string[], sentence: string]>> = {
  'an audit log in no directory': [['--audit-log', 'none/a'], "none/a' cannot be written"],
  'an audit log that is a directory': [['--audit-log', 'data'], "data' cannot be written"],
  'an audit log that is a link into no directory': [['--audit-log', 'link'], "link' cannot be written"],
  'a network with too many bits': [['--trusted-proxy', '10.0.0.0/33'], "'10.0.0.0/33' is neither"],
  'a proxy by its name': [['--trusted-proxy', 'proxy.local'], "'proxy.local' is neither"],
  'the metrics at the port of the server': [
    ['--port', '19007', '--metrics-port', '19007'],
    '--metrics-port 19007 is the port of the server itself',
  ],
  'the metrics at the same port of every address': [
    ['--port', '19007', '--metrics-port', '19007', '--metrics-host', '0.0.0.0'],
    '--metrics-port 19007 is the port of the server itself',
  ],
  'a program for ends that is not on PATH': [['--on-end', 'no-such-program x'], 'it is not on PATH'],
  'a program for ends that is not there': [['--on-end', './none'], 'it is not a file that can be executed'],
  'a program for ends that may not be executed': [
    ['--on-end', './file'],
    'it is not a file that can be executed',
  ],
  'a resident engine without its Python': [
    ['--engine', './konfai-apps', '--engine-resident'],
    'does not say which Python it is for',
  ],
  'a data directory that is a file': [['--data-dir', 'file'], 'file cannot be written to'],
  'a data directory that is a link to nowhere': [['--data-dir', 'nowhere'], 'nowhere cannot be written to'],
  'a data directory whose jobs are a link to nowhere': [
    ['--data-dir', 'linked'],
    'linked cannot be written to',
  ],
};

describe('refusals of serve --check', () => {
  test.for(Object.entries(refusals))(
    'serve --check refuses with the message of a start: %s',
    async ([, [words, sentence]]) => {
      await using cli = await Cli.create();
      await plant(cli.directory, planted);
      chmodSync(path.join(cli.directory, 'konfai-apps'), 0o755);
      symlinkSync('none/a', path.join(cli.directory, 'link'));
      symlinkSync('none', path.join(cli.directory, 'nowhere'));
      symlinkSync('none', path.join(cli.directory, 'linked', 'jobs'));
      const given = words.includes('--data-dir') ? words : [...words, '--data-dir', 'data'];
      const all = [
        'serve',
        '--apps',
        apps.shell,
        ...(words.includes('--port') ? [] : ['--port', '0']),
        ...given,
      ];
      const environment = { CUDA_VISIBLE_DEVICES: '' };
      const before = contentsOf(cli.directory);
      const checked = await cli.run([...all, '--check'], environment);
      expect(contentsOf(cli.directory)).toEqual(before);
      expect(checked.code).toBe(2);
      expect(checked.stdout.split('\n').find((line) => line.startsWith('PROBLEM'))).toContain(sentence);
      expect(await cli.refusedStart(all, environment)).toContain(sentence);
    },
  );

  test.skipIf(lacks('root, and a checkout and a Node that other users can read'))(
    'serve --check refuses a data directory, or one inside it, of another user with the message of a start',
    async () => {
      await using cli = await Cli.create();
      await plant(cli.directory, { 'other/': '', 'own/jobs/': '' });
      chmodSync(path.dirname(cli.directory), 0o755);
      const [other, own] = ['other', 'own'].map((name) => path.join(cli.directory, name));
      chmodSync(other ?? '', 0o777);
      chownSync(own ?? '', 65534, 65534);
      chmodSync(path.join(own ?? '', 'jobs'), 0o700);
      const words = (directory = '') => ['--apps', apps.shell, '--port', '0', '--data-dir', directory];
      const lines = [other, own].map((each) => [...words(each), '--audit-log', '/etc/remote-app-audit.log']);
      const both = await checksIn(cli, asNobody, '/nonexistent', lines);
      expect(both.map(({ code }) => code)).toEqual([2, 2]);
      for (const { stdout } of both) {
        expect(stdout).toMatch(/^PROBLEM {2}data directory: The data directory .* cannot be written to/m);
        expect(stdout).toMatch(/^PROBLEM {2}.*remote-app-audit\.log.*permission denied/m);
      }
      // A start looks at it in the same way.
      const environment = { CUDA_VISIBLE_DEVICES: '', HOME: '/nonexistent' };
      expect((await cli.runProcess(['serve', ...words(own)], environment, '', asNobody)).code).toBe(2);
    },
  );

  const disk = smallDisk(1);
  test.skipIf(disk === null)('serve --check refuses jobs on another file system', async () => {
    await using cli = await Cli.create();
    await plant(cli.directory, { 'data/': '' });
    symlinkSync(disk ?? '', path.join(cli.directory, 'data', 'jobs'));
    const words = ['serve', '--apps', apps.shell, '--port', '0', '--data-dir', 'data'];
    const { code, stdout } = await cli.run([...words, '--check'], { CUDA_VISIBLE_DEVICES: '' });
    expect(code, stdout).toBe(2);
    expect(stdout).toMatch(/^PROBLEM {2}data directory: .* on another file/m);
  });
});

test('serve reports at startup what its apps lack, and serves the others', async () => {
  await using cli = await Cli.create();
  await plant(cli.directory, files);
  writeFileSync(path.join(cli.directory, 'README'), '');
  const sources = [cli.directory, apps.shell, 'owner/name'];
  await using server = await TestServer.start({
    runners: true,
    apps: sources,
    flags: ['--engine', 'no-such-engine'],
  });
  for (const [name, [, sentence]] of Object.entries(faulty)) {
    const line = server.stderr.split('\n').find((each) => each.includes(`app '${name}' cannot be run`));
    expect(line).toContain(sentence);
  }
  expect(server.stderr).toMatch(
    /WARNING: There is no program 'no-such-engine', the engine that runs owner\/name/,
  );
  expect(server.stderr).not.toMatch(/'shell'/);
  expect((await server.api.json('/repo_apps/shell')).available).toBe(true);
});
