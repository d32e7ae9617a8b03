import { execFile } from 'node:child_process';
import { copyFileSync, readFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { lacks } from '../support/needs.mjs';
import { ResidentWorker } from '../support/resident-worker.mjs';
import { TestServer } from '../support/server.js';
import { plant } from '../support/temporary.js';

const root = (file: string): string => fileURLToPath(new URL(`../../${file}`, import.meta.url));
const page = readFileSync(root('docs/resident.md'), 'utf8');
const execute = promisify(execFile);

const programs = [...page.matchAll(/^```(python|javascript)\n(.*?)^```$/gms)];
const [python, javascript, plain] = programs.map(([, , code = '']) => code);

/** The programs of the page, as they stand there. */
const examples = {
  Python: { file: 'main.py', program: 'python3', code: python, helper: 'python/resident.py' },
  JavaScript: { file: 'main.mjs', program: 'node', code: javascript, helper: 'javascript/resident.mjs' },
  'Python without the helper': { file: 'main.py', program: 'python3', code: plain, helper: null },
} as const;
type Name = keyof typeof examples;

const manifest = (command: readonly string[]): string =>
  JSON.stringify({
    display_name: 'Opposite',
    short_description: 'x',
    description: 'x',
    command,
    resident: true,
    tta: 0,
    mc_dropout: 0,
    inputs: { Volume_0: { display_name: 'Volume', volume_type: 'VOLUME' } },
  });

/** Writes the app of an example. @returns the words that run it */
async function plantApp(directory: string, name: Name): Promise<string[]> {
  const { file, program, code = '', helper } = examples[name];
  const app = path.join(directory, 'opposite');
  await plant(app, { [file]: code, 'app.json': manifest([program, file]) });
  if (helper) copyFileSync(root(`templates/resident/${helper}`), path.join(app, path.basename(helper)));
  return [program, path.join(app, file)];
}

const opposite = (text: string): string =>
  Buffer.from(Buffer.from(text).map((byte) => 255 - byte)).toString('hex');
const names = Object.keys(examples) as Name[];

test('The page has these programs, and no others', () => {
  expect(programs.length).toBe(names.length);
});

for (const name of names) {
  const isLacking = lacks(examples[name].program);
  test.skipIf(isLacking)(`The example in ${name} runs with a server, job after job`, async () => {
    await using cli = await Cli.create();
    await plantApp(cli.directory, name);
    await plant(cli.directory, { "it's größer.nii": 'abc', 'b.nii': 'd' });
    await using server = await TestServer.start({
      runners: true,
      apps: [path.join(cli.directory, 'opposite')],
    });
    const env = { REMOTE_APP_SERVER: server.url };
    for (const [output, start] of [
      ['One', 'loading the app; it stays loaded'],
      ['Two', 'the app is loaded already'],
    ] as const) {
      const { code, stderr, stdout } = await cli.run(
        ['infer', "it's größer.nii", 'b.nii', '--quiet', '-o', output],
        env,
      );
      expect([code, stdout], stderr).toEqual([0, expect.stringContaining(start)]);
      expect(await readFile(path.join(cli.directory, output, "it's größer.nii"), 'hex')).toBe(
        opposite('abc'),
      );
      expect(await readFile(path.join(cli.directory, output, 'b.nii'), 'hex')).toBe(opposite('d'));
    }
  });

  test.skipIf(isLacking)(
    `The example in ${name} is one process for many jobs, and runs a single job by itself`,
    async () => {
      await using cli = await Cli.create();
      const command = await plantApp(cli.directory, name);
      await plant(cli.directory, { 'a.nii': 'abc', 'One/': '', 'Two/': '', 'Alone/': '' });
      const words = (output: string, volume: string) => {
        const files = [
          '--output',
          path.join(cli.directory, output),
          '--cpu',
          '1',
          '--inputs',
          volume,
          '--quiet',
        ];
        return [
          'infer',
          '/app',
          '--tta',
          '0',
          '--prediction_file',
          'Prediction.yml',
          '-uncertainty',
          ...files,
        ];
      };
      const volume = path.join(cli.directory, 'a.nii');
      await using worker = new ResidentWorker([...command, 'resident', '/app', '--cpu', '1']);
      expect(await worker.answer()).toEqual({ ready: true });
      for (const [output, file, exit_code] of [
        ['One', volume, 0],
        ['Two', '/nowhere', 1],
        ['Two', volume, 0],
      ] as const) {
        expect((await worker.run(words(output, file))).answer).toMatchObject({ exit_code });
      }
      expect(await worker.end()).toBe(0);
      const [program = '', ...rest] = command;
      await execute(program, [...rest, ...words('Alone', volume)]);
      for (const output of ['One', 'Two', 'Alone']) {
        expect(await readFile(path.join(cli.directory, output, 'a.nii'), 'hex')).toBe(opposite('abc'));
      }
    },
  );
}

test.skipIf(lacks('python3'))(
  'The example without the helper fails its job when it closes its answers',
  async () => {
    await using cli = await Cli.create();
    await plantApp(cli.directory, 'Python without the helper');
    const main = path.join(cli.directory, 'opposite', 'main.py');
    const mute = '    answers.close()\n    __import__("time").sleep(600)\n';
    const code = examples['Python without the helper'].code ?? '';
    await writeFile(main, code.replace('    exit_code = 0\n', mute));
    await plant(cli.directory, { 'a.nii': 'abc' });
    await using server = await TestServer.start({
      runners: true,
      apps: [path.join(cli.directory, 'opposite')],
    });
    const env = { REMOTE_APP_SERVER: server.url };
    const { code: exit, stderr } = await cli.run(['infer', 'a.nii', '--quiet'], env);
    expect([exit, stderr]).toEqual([
      expect.any(Number),
      expect.stringContaining('closed the pipe of its answers'),
    ]);
    expect(exit).not.toBe(0);
  },
);
