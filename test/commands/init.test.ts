import { execFile } from 'node:child_process';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { languageNames, languages, residentHelpers } from '../../src/cli/apps/new-app.js';
import { Cli } from '../support/cli.js';
import { lacks } from '../support/needs.mjs';
import { ResidentWorker } from '../support/resident-worker.mjs';
import { TestServer } from '../support/server.js';
import { plant } from '../support/temporary.js';

const run = promisify(execFile);

/** The languages, and whether the app is resident. */
const kinds = [
  ...languageNames.map((language) => ({ language, kind: '', flags: [] })),
  ...languageNames
    .filter((language) => residentHelpers[language])
    .map((language) => ({ language, kind: ', resident', flags: ['--resident'] })),
];

for (const { language, kind, flags } of kinds)
  describe(`a new app in ${language}${kind}`, () => {
    const init = ['--language', language, ...flags];

    test.skipIf(lacks(languages[language][0]))(
      'A new app runs at once, with and without a server, for names with spaces and quotes, and refuses wrong input',
      async () => {
        await using cli = await Cli.create();
        const [program, file] = languages[language];
        const name = `it's 1.nii`;
        await plant(cli.directory, {
          [`in/${name}`]: 'one',
          'in/b $HOME.nii': 'two',
          'in/s.zarr/.zgroup': '{"zarr_format":2}',
        });
        const made = await cli.run(['init', 'my app', ...init, '--name', 'My model']);
        expect([made.code, made.stderr]).toEqual([0, '']);
        expect(made.stdout).toContain(`${program} 'my app/${file}' infer 'my app' --output Output`);

        await using server = await TestServer.start({
          runners: true,
          apps: [path.join(cli.directory, 'my app')],
        });
        const env = { REMOTE_APP_SERVER: server.url };
        const shown = JSON.parse((await cli.run(['apps', 'my app', '--json'], env)).stdout);
        expect(shown).toMatchObject({ available: true, display_name: 'My model' });
        expect(shown.has_capabilities).toEqual([true, false, false]);

        const { code, stderr, stdout } = await cli.run(
          ['infer', './in', '--gpu=', '--set', 'threshold=0.7', '--uncertainty'],
          env,
        );
        expect(code, stderr + stdout).toBe(0);
        expect(stdout).toMatch(/^threshold: 0\.7$/m);
        const output = path.join(cli.directory, 'Output');
        expect((await readdir(output)).sort()).toEqual([
          'b $HOME.nii',
          name,
          'remote-app-log.txt',
          'remote-app-record.json',
          'result.zip',
          's.zarr',
        ]);
        expect(await readFile(path.join(output, name), 'utf8')).toBe('one');
        expect(await readFile(path.join(output, 's.zarr/.zgroup'), 'utf8')).toBe('{"zarr_format":2}');
        expect(stdout).toContain(name);
        expect(stdout.includes('loading the app; it stays loaded')).toBe(flags.length > 0);

        const checked = await cli.run(['check', 'my app']);
        expect(checked.code, checked.stdout).toBe(0);
        expect(checked.stdout).toMatch(/^ok .*\nok +trial run: infer wrote/);

        const volume = path.join(cli.directory, 'in', name);
        const alone = [`my app/${file}`, 'infer', 'my app', '--output', 'Alone', '--inputs', volume];
        await run(program, alone, { cwd: cli.directory });
        expect(await readFile(path.join(cli.directory, 'Alone', name), 'utf8')).toBe('one');

        // A wrong input: the person who sent it is told why it is refused.
        await plant(cli.directory, { 'a.nii': 'a', 'b.nii': 'b', 'c.nii': 'c' });
        for (const [args, sentence] of [
          [['-i', 'b.nii,c.nii'], "takes 1 group of inputs: 'File'; got 2"],
          [['--set', 'threshold=7'], "--set threshold=7: the app 'my app' takes 'threshold' from 0 to 1"],
          [['--set', 'treshold=0.7'], "has no parameter 'treshold' (did you mean 'threshold'?)"],
        ] as const) {
          const refused = await cli.run(['infer', 'a.nii', ...args], env);
          expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining(sentence)]);
        }
        const manifest = path.join(cli.directory, 'my app/app.json');
        const { inputs, ...others } = JSON.parse(await readFile(manifest, 'utf8'));
        const two = { ...inputs, Volume_1: { ...inputs.Volume_0, required: false } };
        await writeFile(manifest, JSON.stringify({ ...others, inputs: two }));
        const refused = await cli.run(['infer', 'a.nii', '-i', 'b.nii,c.nii'], env);
        expect(refused.code, refused.stderr).toBe(2);
        expect(refused.stderr).toMatch(/different numbers of volumes|one group of inputs/);
      },
    );

    test('A new app has an app.json that conforms to its schema', async () => {
      await using cli = await Cli.create();
      await cli.run(['init', 'app', ...init]);
      const read = async (file: string) =>
        JSON.parse(await readFile(path.join(cli.directory, 'app', file), 'utf8'));
      const manifest = await read('app.json');
      const schema = await read(manifest.$schema);
      z.fromJSONSchema(schema).parse(manifest);
      expect(Object.keys(schema.properties)).toEqual(expect.arrayContaining(Object.keys(manifest)));
      expect(() => z.fromJSONSchema(schema).parse({ ...manifest, tta: 'x' })).toThrow();
    });
  });

describe('init', () => {
  test('init accepts only an empty directory', async () => {
    await using cli = await Cli.create();
    await plant(cli.directory, { 'full/mine': 'mine', 'empty/': '', file: '' });
    expect((await cli.run(['init', 'empty'])).code).toBe(0);
    for (const [name, why] of [
      ['full', 'is not empty'],
      ['empty', 'is not empty'],
      ['file', 'cannot hold an app: not a directory'],
    ]) {
      const { code, stderr } = await cli.run(['init', name ?? '']);
      expect([code, stderr]).toEqual([2, expect.stringContaining(`${name}' ${why}`)]);
    }
    expect(await readdir(path.join(cli.directory, 'full'))).toEqual(['mine']);
  });

  test('init in the working directory names the app after it; --json lists the files that were written', async () => {
    await using cli = await Cli.create();
    const { code, stdout } = await cli.run(['init', '.', '--json']);
    const { directory, language, name, files } = JSON.parse(stdout);
    expect([code, language, name]).toEqual([0, 'python', path.basename(cli.directory)]);
    expect(files.toSorted()).toEqual((await readdir(cli.directory)).sort());
    expect(directory).toBe(cli.directory);
  });

  test.skipIf(lacks('python3'))('init writes a resident app with the helper that it imports', async () => {
    await using cli = await Cli.create();
    const { stdout } = await cli.run(['init', 'my-app', '--resident']);
    expect(stdout).toContain("Your model goes into 'load' and 'predict' of main.py");
    const text = await readFile(path.join(cli.directory, 'my-app/app.json'), 'utf8');
    expect(JSON.parse(text)).toMatchObject({ command: ['python3', 'main.py'], resident: true });
    const command = [
      'python3',
      path.join(cli.directory, 'my-app/main.py'),
      'resident',
      'my-app',
      '--cpu',
      '1',
    ];
    await using worker = new ResidentWorker(command);
    expect(await worker.answer()).toEqual({ ready: true });
    await plant(cli.directory, { 'a.nii': 'one' });
    const files = [
      '--output',
      path.join(cli.directory, 'Out'),
      '--inputs',
      path.join(cli.directory, 'a.nii'),
    ];
    const { answer, log } = await worker.run(['infer', 'my-app', '--cpu', '1', ...files]);
    expect([answer, log]).toMatchObject([{ exit_code: 0 }, 'Case 1/1: a.nii\nthreshold: 0.5\n']);
    expect(await readFile(path.join(cli.directory, 'Out/a.nii'), 'utf8')).toBe('one');
  });

  test('init says that there is no resident app in shell before it writes anything', async () => {
    await using cli = await Cli.create();
    const { code, stderr } = await cli.run(['init', 'my-app', '--resident', '--language', 'shell']);
    expect([code, stderr]).toEqual([2, expect.stringMatching(/no resident app in shell.*--language python/)]);
    expect(await readdir(cli.directory)).toEqual([]);
  });
});
