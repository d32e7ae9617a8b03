import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { freePort } from '../support/free-port.js';
import { plantCache } from '../support/hub-cache.js';
import { sandbox } from '../support/sandbox.js';
import { apps, TestServer } from '../support/server.js';
import { plant } from '../support/temporary.js';

const manifest = {
  display_name: 'x',
  description: 'x',
  short_description: 'x',
  tta: 0,
  mc_dropout: 0,
};

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

const files = Object.fromEntries(Object.entries(faulty).map(([name, [text]]) => [`${name}/app.json`, text]));

/** The entries of a directory, with the contents of its files and the times at which those changed. */
const contentsOf = (directory: string) =>
  readdirSync(directory, { recursive: true, withFileTypes: true })
    .map((entry) => {
      const name = path.join(entry.parentPath, entry.name);
      return entry.isFile() ? [name, readFileSync(name, 'utf8'), statSync(name).ctimeMs] : [name];
    })
    .sort();

describe('serve --check', () => {
  test('says that all is well, and changes nothing', async () => {
    await using cli = await Cli.create();
    const port = String(await freePort());
    const words = ['serve', '--check', '--port', port, '--data-dir', 'data', '--apps', apps.shell];
    const { code, stdout } = await cli.run(words, { SERVICE_API_TOKEN: 'secret', CUDA_VISIBLE_DEVICES: '' });
    expect(stdout.split('\n').map((line) => line.split(':', 1)[0])).toEqual([
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

  test('says what of repositories is in the cache, and asks nobody', async () => {
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

  test('says every problem, each with its place, and ends with 2', async () => {
    await using cli = await Cli.create();
    await plant(cli.directory, {
      ...Object.fromEntries(Object.entries(files).map(([name, text]) => [`apps/${name}`, text])),
      file: '',
    });
    const words = [
      'serve',
      '--check',
      '--port',
      '0',
      '--data-dir',
      'file/x',
      '--apps',
      'apps',
      '--apps',
      'a/b',
    ];
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

  test('does not disturb the server that runs with these settings', async () => {
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
      '--apps',
      apps.shell,
    ];
    const { code, stdout } = await cli.run(words, { CUDA_VISIBLE_DEVICES: '' });
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^note {5}data directory: Another server/m)]);
    expect(stdout).toMatch(/^note {5}address: Cannot listen/m);
    expect((await server.api.fetch('/health')).status).toBe(200);
  });

  test('leaves a data directory as it is, and says that a copy of one that is served is refused', async () => {
    await using server = await TestServer.start();
    await using cli = await Cli.create();
    const copy = path.join(server.scratch, 'copy');
    // It exits with 1 where a file is gone before it is copied, as one of a spare runner that gets ready may be.
    spawnSync('cp', ['-a', server.dataDirectory, copy]);
    const before = contentsOf(copy);
    const words = ['serve', '--check', '--port', '0', '--apps', apps.shell, '--data-dir', copy];
    const environment = { CUDA_VISIBLE_DEVICES: '' };
    for (let time = 0; time < 2; time += 1) {
      const { code, stdout } = await cli.run(words, environment);
      expect([code, stdout]).toEqual([
        2,
        expect.stringMatching(/^PROBLEM {2}data directory: .* is a copy of .*, on which another server/m),
      ]);
    }
    expect(contentsOf(copy)).toEqual(before);
    await server.stop();
    const { code } = await cli.run(words, environment);
    expect([code, contentsOf(copy)]).toEqual([0, before]);
  });
});

test('serve says at its start what its apps lack, and serves the others', async () => {
  await using cli = await Cli.create();
  await plant(cli.directory, files);
  writeFileSync(path.join(cli.directory, 'README'), '');
  const sources = [cli.directory, apps.shell, 'owner/name'];
  await using server = await TestServer.start({ apps: sources, flags: ['--engine', 'no-such-engine'] });
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
