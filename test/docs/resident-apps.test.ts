import { execFile } from 'node:child_process';
import { copyFileSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { lacks } from '../support/needs.mjs';
import { ResidentWorker } from '../support/resident-worker.mjs';
import { TestServer } from '../support/server.js';
import { plant, temporary } from '../support/temporary.js';

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

test('The page contains exactly these programs', () => {
  expect(programs.length).toBe(names.length);
});

for (const name of names) {
  test.skipIf(lacks(examples[name].program))(
    `The example in ${name} runs with a server, job after job`,
    async () => {
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
    },
  );
}

test.skipIf(lacks('python3'))('The example without the helper continues after a failed job', async () => {
  await using directory = await temporary();
  const at = (name: string) => path.join(directory.path, name);
  const command = await plantApp(directory.path, 'Python without the helper');
  await plant(directory.path, { 'a.nii': 'abc', 'One/': '', 'Alone/': '' });
  const words = (output: string, volume: string) => [
    'infer',
    '/app',
    '--tta',
    '0',
    '--output',
    at(output),
    '--cpu',
    '1',
    '--inputs',
    at(volume),
    '--quiet',
  ];
  await using worker = new ResidentWorker([...command, 'resident', '/app', '--cpu', '1']);
  expect(await worker.answer()).toEqual({ ready: true });
  expect((await worker.run(words('One', 'nothing'))).answer).toMatchObject({ exit_code: 1 });
  expect((await worker.run(words('One', 'a.nii'))).answer).toMatchObject({ exit_code: 0 });
  expect(await worker.end()).toBe(0);
  const [program = '', ...rest] = command;
  await execute(program, [...rest, ...words('Alone', 'a.nii')]);
  for (const output of ['One', 'Alone'])
    expect(await readFile(at(`${output}/a.nii`), 'hex')).toBe(opposite('abc'));
});
