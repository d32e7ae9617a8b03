import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { processesNaming } from '../support/processes.js';
import { TestServer } from '../support/server.js';
import { dicom, plant } from '../support/temporary.js';

/** Writes its arguments and input files to its output, then waits if it is told to. */
const app = `
import { readdirSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
const args = process.argv.slice(2);
const output = args[args.indexOf('--output') + 1];
const root = path.dirname(output);
const show = (arg) => arg.split(root + path.sep).join('');
const given = args.filter((arg) => arg.startsWith(path.join(root, 'Input')));
const files = given.flatMap((each) => statSync(each).isDirectory() ? readdirSync(each, { recursive: true }).map((name) => path.basename(each) + '/' + name) : []);
writeFileSync(path.join(output, 'call.json'), JSON.stringify({ args: args.map(show), files: files.sort() }));
console.log('app started');
if (args.includes('wait=1')) setInterval(() => {}, 1000);
`;

const token = 'secret';
let cli: Cli;
let server: TestServer;
let env: NodeJS.ProcessEnv;

beforeAll(async () => {
  cli = await Cli.create();
  await plant(cli.directory, {
    'echo/app.json': JSON.stringify({
      display_name: 'Echo',
      description: 'Says what it was given',
      short_description: 'Echo',
      tta: 4,
      mc_dropout: 4,
      command: ['node', 'main.mjs'],
    }),
    'echo/main.mjs': app,
    'scans/a.nii': 'a',
    'scans/b.nii': 'b',
    'series/ct/1.dcm': dicom,
    'series/ct/2.dcm': dicom,
    'set/case/ct.nii': 'x',
  });
  const echo = path.join(cli.directory, 'echo');
  server = await TestServer.start({ runners: true, apps: [echo], token, flags: ['--sandbox', 'auto'] });
  env = { REMOTE_APP_SERVER: server.url, SERVICE_API_TOKEN: token };
}, 120_000);

afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await cli[Symbol.asyncDispose]();
});

/** Runs a command to its result. Returns the app's arguments, and the files that it found in directories. */
async function call(...args: string[]): Promise<{ args: string; files: string[] }> {
  const output = `out-${args.join('').replace(/\W/g, '')}`;
  const { code, stderr } = await cli.run([...args, '-o', output], env);
  expect([code, stderr]).toEqual([0, expect.stringContaining('Saved')]);
  const written = JSON.parse(await readFile(path.join(cli.directory, output, 'call.json'), 'utf8'));
  return { args: written.args.join(' '), files: written.files };
}

describe('the service itself', () => {
  test('An inference passes its groups, fields and options to the app', async () => {
    const { args } = await call(
      'infer',
      'scans',
      '-i',
      'scans/a.nii',
      '--tta',
      '2',
      '--patch-size',
      '8,8,8',
      '--cpu',
      '1',
    );
    expect(args).toMatch(/^infer .*echo --tta 2 /);
    expect(args).toContain('--patch_size 8 8 8');
    expect(args.match(/--inputs \S+/g)).toHaveLength(2);
  });

  test('A DICOM series arrives as one directory', async () => {
    const { files } = await call('infer', 'series', '--cpu', '1');
    expect(files).toEqual(['ct/1.dcm', 'ct/2.dcm']);
  });

  test('A pipeline passes ground truth and masks to the app', async () => {
    const { args } = await call(
      'pipeline',
      'scans/a.nii',
      '--gt',
      'scans/b.nii',
      '--mask',
      'scans/b.nii',
      '--no-uncertainty',
    );
    expect(args).toMatch(/--gt \S+b\.nii/);
    expect(args).toMatch(/--mask \S+b\.nii/);
    expect(args).not.toContain('-uncertainty ');
  });

  test('A data set arrives as a directory with the same files', async () => {
    const { args, files } = await call('fine-tune', './set', '--epochs', '3', '--name', 'Mine');
    expect(args).toMatch(/^fine-tune \S*echo Mine .*--epochs 3/);
    expect(files.some((file) => file.endsWith('case/ct.nii'))).toBe(true);
  });

  test('A refusal of the server is printed and sets the exit code', async () => {
    const gpu = await cli.run(['infer', 'scans', '--gpu', '99'], env);
    expect([2, 6]).toContain(gpu.code);
    const open = await cli.run(['health'], { ...env, SERVICE_API_TOKEN: '' });
    expect([open.code, open.stderr]).toEqual([4, expect.stringContaining('needs a token: run ')]);
  });

  test('Ctrl-C leaves no process of the job behind', async () => {
    const running = cli.begin(['infer', 'scans', '--cpu', '1', '--set', 'wait=1'], env);
    let log = '';
    while (!log.includes('app started')) log += String((await once(running.stdout, 'data'))[0]);
    running.signal('SIGINT');
    const { code, stderr } = await running.ended;
    expect([code, stderr]).toEqual([130, expect.stringMatching(/remote job \w+ is killed/)]);
    expect(processesNaming(path.join(cli.directory, 'echo', 'main.mjs'))).toEqual([]);
  });

  test('Jobs can be listed, queried and fetched again', async () => {
    const { jobs } = JSON.parse((await cli.run(['jobs', '--json'], env)).stdout);
    const done = jobs.find((job: { status: string }) => job.status === 'done');
    expect((await cli.run(['status', done.job_id], env)).stdout).toMatch(/Kept until/);
    expect((await cli.run(['logs', done.job_id], env)).stdout).toContain('app started');
    expect((await cli.run(['result', done.job_id, '-o', 'again'], env)).code).toBe(0);
    expect(await readdir(path.join(cli.directory, 'again'))).toContain('call.json');
    expect((await cli.run(['kill', done.job_id], env)).stdout).toMatch(/done/);
  });
});
