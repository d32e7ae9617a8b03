import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { TestServer } from '../support/server.js';
import { plant } from '../support/temporary.js';

/** Apps by name, with what they need. The server has a GPU of 140.4 GiB, and its jobs may write 10 GiB. */
const apps = {
  large: { gpu_memory: '200GiB' },
  strict: { gpu: 'required', gpu_memory: '200GiB' },
  gpu: { gpu: 'required' },
  cpu: { gpu: 'none' },
  hungry: { memory: '8192GiB' },
  busy: { cpus: 5000 },
  verbose: { disk: '1024GiB' },
  piped: { gpu_memory: '8GiB', operations: { infer: { gpu_memory: '200GiB' } } },
  lean: {
    gpu_memory: '8GiB',
    operations: { infer: { gpu_memory: '200GiB' }, pipeline: { gpu_memory: '9GiB' } },
  },
  tuned: { gpu_memory: '8GiB', operations: { fine_tune: { gpu_memory: '200GiB' } } },
};

let cli: Cli;
let server: TestServer;

beforeAll(async () => {
  cli = await Cli.create();
  const about = { display_name: 'A', description: '', short_description: '', tta: 0, mc_dropout: 0 };
  const command = ['true'];
  const manifests = Object.entries(apps).map(([name, resources]) => [
    `${name}/app.json`,
    JSON.stringify({ ...about, command, resources }),
  ]);
  await plant(cli.directory, {
    ...Object.fromEntries(manifests),
    'scans/a.nii': 'a',
    'tuned/Config.yml': '',
  });
  await plant(cli.directory, {
    'wrong/app.json': JSON.stringify({ ...about, command, resources: { memory: 'much' } }),
  });
  const directories = Object.keys(apps).map((name) => path.join(cli.directory, name));
  server = await TestServer.start({
    runners: true,
    gpus: 1,
    apps: directories,
    flags: ['--disk-per-job', '10GiB'],
  });
});

afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await cli[Symbol.asyncDispose]();
});

const tooLarge = `needs 200.0 GiB of GPU memory; the largest GPU of this server has 140.4 GiB`;
const orOnTheCpu = "; ask for the CPU with 'cpu' to run it without a GPU";

test('A pipeline needs what its inference needs, unless its app says otherwise', async () => {
  const statusOf = async (app: string, operation: string) =>
    (await server.api.fetch(`/limits?app=${app}&operation=${operation}`)).status;
  expect([await statusOf('piped', 'pipeline'), await statusOf('piped', 'evaluate')]).toEqual([422, 200]);
  expect([await statusOf('lean', 'pipeline'), await statusOf('lean', 'infer')]).toEqual([200, 422]);
});

test.each([
  ['large', 'infer', {}, tooLarge + orOnTheCpu],
  ['large', 'infer', { gpu: '0' }, 'needs 200.0 GiB of GPU memory; GPU 0 has 140.4 GiB'],
  ['strict', 'infer', {}, tooLarge],
  ['gpu', 'infer', { cpu: '1' }, 'needs a GPU, and the job asks for the CPU'],
  ['cpu', 'infer', { gpu: '0' }, "uses no GPU: leave out 'gpu'"],
  ['hungry', 'infer', {}, /^needs 8\.0 TiB of memory; a job of this server may use \d/],
  ['busy', 'infer', {}, /^needs 5000 CPUs; this server has \d+$/],
  ['verbose', 'infer', {}, 'needs 1.0 TiB of disk; a job of this server may write 10.0 GiB'],
  ['tuned', 'fine_tune', {}, tooLarge + orOnTheCpu],
])(
  'Before anything is sent, client and server refuse %s for %s with %o',
  async (name, operation, fields, expected) => {
    const [field, verb] = operation === 'infer' ? ['inputs', 'infer'] : ['dataset', 'fine-tune'];
    const form = { ...fields, [field]: new File(['PK'], 'a.zip') };
    const [status, detail] = await server.api.refused(operation, form, { app: name });
    const problem = detail.replace(/^The app '[^']+' /, '');
    expect([status, problem]).toEqual([
      422,
      typeof expected === 'string' ? expected : expect.stringMatching(expected),
    ]);

    const flags = Object.entries(fields).flatMap(([flag, value]) => [`--${flag}`, value]);
    const ended = await cli.run([verb, './scans', '--app', name, '--server', server.url, ...flags]);
    expect([ended.code, ended.stderr]).toEqual([2, expect.stringContaining(problem)]);
    expect(server.jobDirectories()).toEqual([]);
  },
);

test('An app that uses no GPU runs on the CPU although the machine has a GPU', async () => {
  const { view } = await server.api.run('infer', { inputs: new File(['a'], 'a.nii') }, { app: 'cpu' });
  expect([view.status, view.assigned_gpus]).toEqual(['done', []]);
});

test('The description of an app states its requirements, and `check` finds an invalid size', async () => {
  const shown = await cli.run(['apps', 'tuned', '--server', server.url]);
  expect(shown.stdout).toContain('gpu_memory: 8GiB; fine_tune: gpu_memory: 200GiB');
  const wrong = await cli.run(['check', path.join(cli.directory, 'wrong'), '--no-run']);
  expect(wrong.stdout).toContain('resources.memory: a size looks like 8GiB');
});
