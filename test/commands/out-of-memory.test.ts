import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { lacks } from '../support/needs.mjs';
import { sandbox } from '../support/sandbox.js';
import { TestServer } from '../support/server.js';
import { ScriptedCluster } from '../support/slurm/scripted-cluster.js';
import { plant } from '../support/temporary.js';

const about = { display_name: 'A', description: '', short_description: '', tta: 0, mc_dropout: 0 };
const inputs = { ct: { display_name: 'CT', volume_type: 'VOLUME' } };
const app = (script: string, more = {}) =>
  JSON.stringify({ ...about, inputs, command: ['sh', '-c', script, 'sh'], ...more });
const greedy = `exec python3 -c "x = [b'x' * (20 << 20) for _ in iter(int, 1)]"`;

let cli: Cli;
beforeAll(async () => {
  cli = await Cli.create();
  await plant(cli.directory, {
    'gpu/app.json': app('echo CUDA out of memory; exit 1', { resources: { gpu_memory: '8GiB' } }),
    'greedy/app.json': app(greedy, { resources: { memory: '96MiB' } }),
    'scans/a.nii': 'a',
    'scans/b.nii': 'b',
  });
});
afterAll(() => cli[Symbol.asyncDispose]());

const start = (flags: readonly string[], environment = {}) =>
  TestServer.start({
    runners: true,
    gpus: 1,
    apps: ['gpu', 'greedy'].map((name) => path.join(cli.directory, name)),
    flags,
    environment,
  });

/** Runs `infer` with this app for each scan. */
const infer = (server: TestServer, name: string, ...flags: string[]) =>
  cli.run([
    'infer',
    './scans',
    '--each',
    '--app',
    name,
    '--server',
    server.url,
    '-o',
    `Out-${name}`,
    ...flags,
  ]);

describe.each([
  ['this machine', '140.4 GiB available, '],
  ['a Slurm cluster', ''],
])('on %s', (where, available) => {
  let server: TestServer;
  let cluster: ScriptedCluster | null = null;
  const directory = mkdtempSync(path.join(tmpdir(), 'remote-app-slurm-'));
  beforeAll(async () => {
    if (where === 'this machine')
      server = await start(sandbox ? ['--sandbox', 'bwrap', '--memory-per-job', '128MiB'] : []);
    else {
      cluster = new ScriptedCluster(directory, 1);
      server = await start(['--executor', 'slurm', '--pass-env', 'SCRIPTED_SLURM'], cluster.environment);
    }
  });
  afterAll(async () => {
    await server[Symbol.asyncDispose]();
    cluster?.close();
    rmSync(directory, { recursive: true, force: true });
  });

  test.skipIf(where !== 'this machine' || sandbox === null || lacks('python3'))(
    `A job that allocates memory until it is killed is reported as out of memory on ${where}, with numbers`,
    async () => {
      const { stderr } = await infer(server, 'greedy', '--cpu', '1', '--retry-alone');
      expect(stderr).toMatch(/2 failed, 2 of them out of memory/);
      expect(stderr).toMatch(
        /a: .*memory.* \(128\.0 MiB available, 96\.0 MiB declared(, \d+\.\d MiB used)?\)/,
      );
      expect(stderr).not.toContain('once more');
    },
  );

  test(`Cases that run out of GPU memory on ${where} are counted separately, and run twice with --retry-alone`, async () => {
    const { stderr, code } = await infer(server, 'gpu', '--retry-alone', '--tag', 'gpu');
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining('2 cases: 0 done, 2 failed, 2 of them out of memory\n'),
    ]);
    const numbers = `${available}8.0 GiB declared`;
    expect(stderr).toContain(`a: The GPU ran out of memory, exit code 1 (${numbers}): CUDA out of memory\n`);
    const { stdout } = await cli.run(['jobs', '--json', '--tag', 'gpu', '--server', server.url]);
    const { jobs } = JSON.parse(stdout) as { jobs: { job_id: string; kind: string | null }[] };
    expect(jobs.map(({ kind }) => kind)).toEqual(['out-of-memory', 'out-of-memory']);
    for (const { job_id } of jobs) {
      const log = await server.api.log(job_id);
      expect(log.match(/^data: CUDA out of memory$/gm)).toHaveLength(2);
      expect(log.match(/it runs once more, without sharing/g)).toHaveLength(1);
    }
  });
});
